/** The dialog that chooses the columns of the table of jobs. */

import { useState } from "preact/hooks";
import { ALWAYS, type Column, COLUMNS, columnsText, USUAL } from "../lib/columns.ts";
import { t } from "../strings.ts";
import { Dialog } from "./dialog.tsx";
import { Icon } from "./icons.tsx";

export function ColumnChooser({ columns, onChoose }: { columns: readonly Column[]; onChoose: (columns: readonly Column[]) => void }) {
  const [isOpen, setOpen] = useState(false);
  const toggle = (name: Column): void => onChoose(columns.includes(name) ? columns.filter((one) => one !== name) : COLUMNS.filter((one) => one === name || columns.includes(one)));
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        <Icon name="columns" /> {t.jobsPage.choose}
      </button>
      {isOpen && (
        <Dialog title={t.jobsPage.chooseTitle} onClose={() => setOpen(false)} class="small">
          <p class="hint">{t.jobsPage.chooseBody}</p>
          <ul class="choices">
            {COLUMNS.map((name) => (
              <li key={name}>
                <label>
                  <input type="checkbox" checked={columns.includes(name)} disabled={name === ALWAYS} onChange={() => toggle(name)} /> {t.jobsPage.columns[name]}
                </label>
              </li>
            ))}
          </ul>
          <div class="dialog-actions">
            <button type="button" disabled={columnsText(columns) === null} onClick={() => onChoose(USUAL)}>
              {t.jobsPage.usual}
            </button>
            <button type="button" class="primary" onClick={() => setOpen(false)}>
              {t.close}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
