/** A button that is there only for callers whom the server lets do what it does. The server checks it again. */

import type { ComponentChildren } from "preact";
import { may } from "../api.ts";

interface Props {
  /** The actions that the server asks for, all of them. */
  needs: string | readonly string[];
  class?: string;
  children: ComponentChildren;
  onClick: () => void;
}

export function Permitted({ needs, class: name, children, onClick }: Props) {
  if (![needs].flat().every(may)) return null;
  return (
    <button type="button" class={name} onClick={onClick}>
      {children}
    </button>
  );
}
