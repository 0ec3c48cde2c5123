/** Events: what operators did, and changes of jobs as they happen. */

import { useState } from "preact/hooks";
import { api, type Entry, type LedgerFilter } from "../api.ts";
import { Ago, Card, Empty, Link, Loaded, Moment, PageHead, StateBadge, Table } from "../components/basics.tsx";
import { Icon } from "../components/icons.tsx";
import { OperationList } from "../components/operation_list.tsx";
import { attempt, toast } from "../components/toasts.tsx";
import { saveAs } from "../lib/download.ts";
import { isJobId } from "../lib/filter.ts";
import { parameters, setParameters } from "../lib/router.ts";
import { useQuery } from "../lib/query.ts";
import { changes } from "../live.ts";
import { t } from "../strings.ts";

const words = t.eventsPage;

export default function EventsPage() {
  return (
    <>
      <PageHead title={words.title}>
        <button type="button" onClick={() => void verify()}>
          <Icon name="check" /> {words.verify}
        </button>
        <button type="button" onClick={() => void download()}>
          <Icon name="download" /> {t.deadPage.exportAll}
        </button>
      </PageHead>
      <Filters />
      <Ledger key={JSON.stringify(filter())} />
      <OperationList isWhole />
      <Feed />
    </>
  );
}

/** The filter, as the address holds it. */
function filter(): LedgerFilter {
  const found: LedgerFilter = {};
  for (const name of FIELDS) {
    const value = parameters.value.get(name);
    if (value) found[name] = value;
  }
  return found;
}

const FIELDS = ["actor", "action", "target", "surface"] as const;

function Filters() {
  const set = (name: string) => (event: { currentTarget: { value: string } }) => setParameters({ [name]: event.currentTarget.value.trim() || null }, { replace: true });
  const now = filter();
  return (
    <div class="filter ledger-filter">
      {(["actor", "action", "target"] as const).map((name) => (
        <label key={name}>
          <span class="hint">{words.filters[name]}</span>
          <input type="search" value={now[name] ?? ""} placeholder={words.examples[name]} onChange={set(name)} />
        </label>
      ))}
      <label>
        <span class="hint">{words.filters.surface}</span>
        <select value={now.surface ?? ""} onChange={set("surface")}>
          <option value="">{words.any}</option>
          {["ui", "cli", "api", "sdk"].map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** Verifies the hash chain on the server, and tells what it found. */
async function verify(): Promise<void> {
  await attempt(
    async () => {
      const found = await api.verifyLedger();
      if (!found.is_intact) throw new Error(found.finding ?? "");
      return found;
    },
    (found) => words.intact(found.count, found.is_complete),
  );
}

async function download(): Promise<void> {
  try {
    saveAs(await (await api.exportEvents(filter())).blob(), "ledger.jsonl");
  } catch (error) {
    toast(String(error), "bad");
  }
}

function Ledger() {
  const chosen = filter();
  const isFiltered = Object.keys(chosen).length > 0;
  const first = useQuery(`events ${JSON.stringify(chosen)}`, (signal) => api.events(chosen, null, signal), { topic: "ledger", every: 10 });
  const [more, setMore] = useState<{ items: Entry[]; next_cursor: string | null } | null>(null);
  const columns = words.columns;
  return (
    <Card title={words.ledger} isFlush>
      <Loaded query={first}>
        {(data) => {
          const known = new Set(data.items.map((one) => one.number));
          const items = [...data.items, ...(more?.items ?? []).filter((one) => !known.has(one.number))];
          const cursor = more ? more.next_cursor : data.next_cursor;
          if (items.length === 0 && isFiltered) return <Empty title={words.noMatch} body={words.noMatchBody} />;
          if (items.length === 0) return <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />;
          return (
            <>
              <Table
                caption={words.caption}
                isCards
                head={
                  <>
                    <th class="right">{columns.number}</th>
                    <th>{columns.at}</th>
                    <th>{columns.actor}</th>
                    <th>{columns.action}</th>
                    <th>{columns.target}</th>
                    <th>{columns.origin}</th>
                    <th>{columns.detail}</th>
                  </>
                }
              >
                {items.map((entry) => (
                  <tr key={entry.number}>
                    <td class="right faint">{entry.number}</td>
                    <td class="number">
                      <Moment at={entry.at} />
                    </td>
                    <td>
                      {entry.actor} <span class="faint">{entry.surface}</span>
                    </td>
                    <td class="strong">{entry.action}</td>
                    <td>
                      <Target target={entry.target} />
                    </td>
                    <td class="faint">{entry.origin}</td>
                    <td>
                      <div class="clip">{entry.detail}</div>
                    </td>
                  </tr>
                ))}
              </Table>
              {cursor && (
                <div class="table-foot">
                  <button type="button" class="small" onClick={() => void api.events(chosen, cursor).then((page) => setMore({ items: [...(more?.items ?? []), ...page.items], next_cursor: page.next_cursor }))}>
                    {t.more}
                  </button>
                </div>
              )}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Target({ target }: { target: string }) {
  const id = target.replace(/^job[: ]/, "");
  return isJobId(id) ? (
    <Link to={`/jobs/${id}`} class="mono">
      {id}
    </Link>
  ) : (
    <>{target}</>
  );
}

function Feed() {
  const shown = changes.value.slice(0, 100);
  return (
    <Card title={words.live} isFlush>
      {shown.length === 0 ? (
        <p class="faint card-body">{words.liveEmpty}</p>
      ) : (
        <ul class="feed">
          {shown.map((change) => (
            <li key={`${change.id}${change.at}${change.state}`}>
              <StateBadge state={change.state} />
              <Link to={`/jobs/${change.id}`} class="strong clip">
                {change.type}
              </Link>
              <span class="faint narrow-hide">{change.queue}</span>
              <code class="faint narrow-hide">{change.id}</code>
              <Ago at={new Date(change.at).toISOString()} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
