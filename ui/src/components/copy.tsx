/** Copying text, also on plain http, where the browser's clipboard is not available. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Snippets } from "../lib/snippets.ts";
import { t } from "../strings.ts";
import { Icon } from "./icons.tsx";
import { toast } from "./toasts.tsx";

export async function copyText(text: string): Promise<void> {
  const isCopied = (await writeClipboard(text)) || copyBySelection(text);
  toast(isCopied ? t.copied : t.copyFailed, isCopied ? "good" : "bad");
}

async function writeClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

/** A menu that copies the same request for the shell, the command line or Python. */
export function CopyAs({ snippets }: { snippets: () => Snippets }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    const close = (event: Event): void => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, [isOpen]);
  const made = isOpen ? snippets() : null;
  const rows = made ? ([["curl", made.curl], ["CLI", made.cli], ["Python", made.python]] as const) : [];
  return (
    <div class="menu" ref={box}>
      <button type="button" aria-label={t.copyAs} aria-haspopup="true" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="copy" /> <span class="wide-only">{t.copyAs}</span> <Icon name="down" size={12} />
      </button>
      {isOpen && (
        <ul class="menu-list">
          {rows.map(
            ([name, text]) =>
              text !== null && (
                <li>
                  <button
                    type="button"
                    class="quiet"
                    onClick={() => {
                      void copyText(text);
                      setOpen(false);
                    }}
                  >
                    <strong>{name}</strong>
                    <code>{text}</code>
                  </button>
                </li>
              ),
          )}
        </ul>
      )}
    </div>
  );
}
