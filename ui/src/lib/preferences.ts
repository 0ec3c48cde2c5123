/** What a person has chosen: theme, time zone. Kept in the browser. */

import { effect, signal } from "@preact/signals";
import type { Zone } from "./time.ts";

export type Theme = "system" | "light" | "dark";

function stored<T extends string>(name: string, allowed: readonly T[], fallback: T) {
  const key = `rota.${name}`;
  let known: string | null = null;
  try {
    known = localStorage.getItem(key);
  } catch {
    // A browser may forbid storage; the choice then lasts as long as the page.
  }
  const chosen = signal<T>(allowed.includes(known as T) ? (known as T) : fallback);
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
export const zone = stored<Zone>("zone", ["local", "utc"], "local");

/** Applies the theme to the document. */
export function startTheme(): void {
  effect(() => {
    if (theme.value === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset["theme"] = theme.value;
  });
}
