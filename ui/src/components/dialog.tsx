/** Dialogs: the browser's own, which keeps the focus inside and gives it back. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../strings.ts";
import { Icon } from "./icons.tsx";

export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
  isTitleHidden?: boolean;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    // The first thing to fill in, otherwise the answer; a dangerous one is not a key away.
    const form = dialog?.querySelector("form");
    const first = form?.querySelector<HTMLElement>("input:not([disabled]), select, textarea") ?? form?.querySelector<HTMLElement>(".dialog-actions button:not(.danger):last-child, .dialog-actions button");
    first?.focus();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={box}
      class={props.class ?? ""}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === box.current) props.onClose();
      }}
    >
      <div class="dialog-box">
        {!props.isTitleHidden && (
          <header class="dialog-head">
            <h2>{props.title}</h2>
            <button type="button" class="quiet" aria-label={t.close} onClick={props.onClose}>
              <Icon name="close" />
            </button>
          </header>
        )}
        {props.children}
      </div>
    </dialog>
  );
}

type InputType = "text" | "number" | "datetime-local";

interface Question {
  title: string;
  body: string;
  action: string;
  isDangerous?: boolean;
  /** Asks for a line of text too. */
  field?: { label: string; hint?: string; type?: InputType; value?: string };
  second?: { label: string; hint?: string; type?: InputType };
  /** Asks for yes or no too. */
  choice?: { label: string };
}
interface Answer {
  text: string;
  second: string;
  isChosen: boolean;
}

const question = signal<(Question & { answer: (answer: Answer | null) => void }) | null>(null);

/** Asks before something is done; gives null if the person thinks better of it. */
export function ask(asked: Question): Promise<Answer | null> {
  return new Promise((resolve) => {
    question.value = {
      ...asked,
      answer: (answer) => {
        question.value = null;
        resolve(answer);
      },
    };
  });
}

export function Questions() {
  const asked = question.value;
  return asked === null ? null : <QuestionDialog key={asked.title} asked={asked} />;
}

function QuestionDialog({ asked }: { asked: NonNullable<typeof question.value> }) {
  const [text, setText] = useState(asked.field?.value ?? "");
  const [second, setSecond] = useState("");
  const [isChosen, setChosen] = useState(false);
  return (
    <Dialog title={asked.title} onClose={() => asked.answer(null)} class="small">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          asked.answer({ text, second, isChosen });
        }}
      >
        <p>{asked.body}</p>
        {asked.field && (
          <div class="field">
            <label for="ask-text">{asked.field.label}</label>
            <input id="ask-text" type={(asked.field.type ?? "text") as "text"} value={text} onInput={(event) => setText(event.currentTarget.value)} />
            {asked.field.hint && <p class="hint">{asked.field.hint}</p>}
          </div>
        )}
        {asked.second && (
          <div class="field">
            <label for="ask-second">{asked.second.label}</label>
            <input id="ask-second" type={(asked.second.type ?? "text") as "text"} value={second} onInput={(event) => setSecond(event.currentTarget.value)} />
            {asked.second.hint && <p class="hint">{asked.second.hint}</p>}
          </div>
        )}
        {asked.choice && (
          <label class="field">
            <input type="checkbox" checked={isChosen} onChange={() => setChosen(!isChosen)} /> {asked.choice.label}
          </label>
        )}
        <div class="dialog-actions">
          <button type="button" onClick={() => asked.answer(null)}>
            {t.cancel}
          </button>
          <button type="submit" class={asked.isDangerous ? "danger" : "primary"}>
            {asked.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
