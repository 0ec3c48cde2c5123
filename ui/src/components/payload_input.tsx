/** Fields for a type and for its payload: known types are offered, and the payload is held against the type's schema. */

import { api } from "../api.ts";
import { useQuery } from "../lib/query.ts";
import { misfits, type PayloadSchema, shortOf } from "../lib/schema.ts";
import { t } from "../strings.ts";

type Change = (event: { currentTarget: { value: string } }) => void;

/** The name of a type; those that have run, or that live workers know, are offered. */
export function TypeInput({ id, value, onInput }: { id: string; value: string; onInput: Change }) {
  const types = useQuery("types", api.types, { every: 600 });
  return (
    <>
      <input id={id} required autocomplete="off" list={`${id}-known`} value={value} onInput={onInput} />
      <datalist id={`${id}-known`}>
        {(types.data?.items ?? []).map((one) => (
          <option key={one.type} value={one.type} />
        ))}
      </datalist>
    </>
  );
}

/** The schema of the payloads of a type, if the server counts the type and a worker has registered one. */
function useSchema(type: string): PayloadSchema | null {
  const found = useQuery(`schema ${type}`, async (signal) => {
    const known = type !== "" && (await api.types(signal)).items.some((one) => one.type === type);
    return known ? (await api.type(type, signal)).payload_schema : null;
  }, { every: 600 });
  return found.data;
}

/** What the handler of a type takes, and what of a payload does not fit. */
export function PayloadCheck({ type, text }: { type: string; text: string }) {
  const schema = useSchema(type);
  if (schema === null) return null;
  const wrong = misfits(parsed(text), schema);
  return (
    <div class="payload-check">
      {shortOf(schema) !== "" && (
        <p class="hint">
          {t.editForm.expects} <code>{shortOf(schema)}</code>
        </p>
      )}
      {wrong.length > 0 && (
        <ul class="field-error" role="status">
          {wrong.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The payload as it is typed, an empty object where nothing is; undefined while it is no JSON, which is told elsewhere. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text.trim() || "{}") as unknown;
  } catch {
    return undefined;
  }
}
