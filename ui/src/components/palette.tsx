/** The command palette: search jobs, open a job by id, go to a page. */

import { useState } from "preact/hooks";
import { may } from "../api.ts";
import { queryOf, readSearch } from "../lib/filter.ts";
import { NAVIGATION } from "../lib/navigation.ts";
import { theme, zone } from "../lib/preferences.ts";
import { navigate } from "../lib/router.ts";
import { isPaused } from "../live.ts";
import { ZONES } from "../lib/time.ts";
import { t } from "../strings.ts";
import { Dialog } from "./dialog.tsx";
import { Icon } from "./icons.tsx";

interface Choice {
  label: string;
  icon: string;
  /** Where it leads, or what it does. */
  to: string | (() => void);
}

/** What can be done from everywhere. */
function commands(): Choice[] {
  const themes = { system: "light", light: "dark", dark: "system" } as const;
  const next = themes[theme.peek()];
  return [
    ...(may("jobs.submit") ? [{ label: t.search.submitJob, icon: "plus", to: "/jobs?submit=1" }] : []),
    ...(may("schedules.edit") ? [{ label: t.search.newSchedule, icon: "plus", to: "/schedules?new=1" }] : []),
    { label: isPaused.peek() ? t.live.resume : t.live.pause, icon: "pause", to: () => (isPaused.value = !isPaused.peek()) },
    { label: t.theme[next], icon: "moon", to: () => (theme.value = next) },
    ...ZONES.filter((other) => other !== zone.peek()).map((other) => ({ label: t.zone.switchTo(t.zone.names[other]), icon: "schedules", to: () => void (zone.value = other) })),
  ];
}

function choicesOf(text: string): Choice[] {
  const wanted = text.trim().toLowerCase();
  const pages = NAVIGATION.filter((item) => item.label.toLowerCase().includes(wanted)).map((item) => ({
    label: t.search.goTo(item.label),
    icon: item.icon,
    to: item.path,
  }));
  if (!wanted) return [...pages, ...commands()];
  const search = readSearch(text);
  const found: Choice[] = [];
  if (search.job) found.push({ label: t.search.openJob(search.job), icon: "external", to: `/jobs/${search.job}` });
  const query = queryOf(search.filter).toString();
  if (query) {
    found.push({ label: t.search.searchJobs(text.trim()), icon: "search", to: `/jobs?${query}` });
  }
  const isWord = !wanted.includes(":") && pages.length > 0;
  const meant = commands().filter((one) => one.label.toLowerCase().includes(wanted));
  return isWord ? [...pages, ...meant, ...found] : [...meant, ...found, ...pages];
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const choices = choicesOf(text);
  const go = (choice: Choice | undefined): void => {
    if (!choice) return;
    onClose();
    if (typeof choice.to === "string") navigate(choice.to);
    else choice.to();
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((at + step + choices.length) % Math.max(choices.length, 1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(choices[at]);
    }
  };
  return (
    <Dialog title={t.search.label} onClose={onClose} class="palette" isTitleHidden>
      <div class="palette-input">
        <Icon name="search" size={18} />
        <input
          type="text"
          role="combobox"
          aria-label={t.search.label}
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={choices.length ? `choice-${at}` : undefined}
          aria-describedby="palette-hint"
          placeholder={t.search.placeholder}
          autoFocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
      </div>
      <ul id="palette-list" role="listbox" aria-label={t.search.label}>
        {choices.map((choice, index) => (
          <li
            id={`choice-${index}`}
            role="option"
            aria-selected={index === at}
            onPointerMove={() => setAt(index)}
            onClick={() => go(choice)}
          >
            <Icon name={choice.icon} /> {choice.label}
          </li>
        ))}
      </ul>
      <p class="hint" id="palette-hint">
        {t.search.hint}
      </p>
    </Dialog>
  );
}
