/** What a person has chosen: theme, time zone, columns. Kept in the browser. */

import { effect, signal } from "@preact/signals";
import { type Zone, ZONES } from "./time.ts";

export type Theme = "system" | "light" | "dark";

function stored<T extends string>(name: string, allowed: readonly T[] | null, fallback: T) {
  const key = `rota.${name}`;
  let known: string | null = null;
  try {
    known = localStorage.getItem(key);
  } catch {
    // A browser may forbid storage; the choice then lasts as long as the page.
  }
  const chosen = signal<T>(known !== null && (allowed === null || allowed.includes(known as T)) ? (known as T) : fallback);
  effect(() => {
    const value = chosen.value;
    try {
      localStorage.setItem(key, value);
    } catch {
      // As above.
    }
  });
  return chosen;
}

export const theme = stored<Theme>("theme", ["system", "light", "dark"], "system");
export const zone = stored<Zone>("zone", ZONES, "local");
/** The columns of the table of jobs, as `queue,took`; empty for the usual ones. */
export const chosenColumns = stored<string>("columns", null, "");

/** Applies the theme to the document. */
export function startTheme(): void {
  effect(() => {
    if (theme.value === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset["theme"] = theme.value;
  });
}
