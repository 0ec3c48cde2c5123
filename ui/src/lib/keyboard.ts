/** Keyboard shortcuts: single keys, and `g` followed by a key. Ignored while text is typed or a dialog is open. */

import { useEffect, useRef } from "preact/hooks";

type Handler = (event: KeyboardEvent) => void;
const SEQUENCE_MILLISECONDS = 1_200;

/** Says whether a key press is text for a field. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return target?.closest?.("input, textarea, select, [contenteditable]") !== null;
}

/** Handles keys while a component is shown. Names are those of `KeyboardEvent.key`, or `g x` for a sequence. */
export function useKeys(keys: Record<string, Handler>): void {
  // Always those of the last render: keys may come faster than effects run.
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    let prefixAt = 0;
    const listen = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      if (document.querySelector("dialog[open]")) return;
      const isSequence = Date.now() - prefixAt < SEQUENCE_MILLISECONDS;
      prefixAt = event.key === "g" ? Date.now() : 0;
      const handler = current.current[isSequence ? `g ${event.key}` : event.key];
      if (handler) {
        event.preventDefault();
        handler(event);
      }
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
}
