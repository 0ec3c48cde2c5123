/** Short messages about what was done, spoken by screen readers. */

import { signal } from "@preact/signals";
import { ApiError } from "../api.ts";
import { t } from "../strings.ts";
import { Icon } from "./icons.tsx";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
  /** Takes back what the message tells of. */
  undo?: () => void;
}

const SHOWN_MILLISECONDS = 6_000;
const UNDO_MILLISECONDS = 10_000;
const toasts = signal<readonly Toast[]>([]);
let lastId = 0;

export function toast(text: string, tone: "good" | "bad" = "good"): void {
  show({ text, tone }, tone === "bad" ? SHOWN_MILLISECONDS * 2 : SHOWN_MILLISECONDS);
}

/** Shows a message with a button that takes back what it tells of, for a while. */
export function undoable(text: string, milliseconds: number, undo: () => void): void {
  show({ text, tone: "good", undo }, milliseconds);
}

function show(one: Omit<Toast, "id">, milliseconds: number): void {
  lastId += 1;
  const id = lastId;
  toasts.value = [...toasts.value.slice(-3), { id, ...one }];
  setTimeout(() => dismiss(id), milliseconds);
}

/** Does something and tells how it went, with a button to take it back if there is a way; gives whether it was done. */
export async function attempt<T>(action: () => Promise<T>, done: (value: T) => string, undo?: () => void): Promise<boolean> {
  try {
    const text = done(await action());
    if (undo) undoable(text, UNDO_MILLISECONDS, undo);
    else toast(text);
    return true;
  } catch (error) {
    toast([error instanceof Error ? error.message : String(error), error instanceof ApiError ? error.fix : ""].filter(Boolean).map(sentence).join(" "), "bad");
    return false;
  }
}

/** A message of the server as a sentence. */
function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.id} class={`toast toast-${one.tone}`}>
          <span>{one.text}</span>
          {one.undo && (
            <button
              type="button"
              onClick={() => {
                dismiss(one.id);
                one.undo?.();
              }}
            >
              {t.operations.undo}
            </button>
          )}
          <button type="button" class="quiet" aria-label={t.close} onClick={() => dismiss(one.id)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}
