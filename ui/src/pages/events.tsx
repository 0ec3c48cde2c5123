/** Events: what operators did, and changes of jobs as they happen. */

import { useState } from "preact/hooks";
import { api, type Entry } from "../api.ts";
import { Ago, Card, Empty, Link, Loaded, Moment, PageHead, StateBadge, Table } from "../components/basics.tsx";
import { isJobId } from "../lib/filter.ts";
import { useQuery } from "../lib/query.ts";
import { changes } from "../live.ts";
import { t } from "../strings.ts";

const words = t.eventsPage;

export default function EventsPage() {
  return (
    <>
      <PageHead title={words.title} />
      <Ledger />
      <Feed />
    </>
  );
}

function Ledger() {
  const first = useQuery("events", (signal) => api.events(null, signal), { topic: "ledger", every: 10 });
  const [more, setMore] = useState<{ items: Entry[]; next_cursor: string | null } | null>(null);
  const columns = words.columns;
  return (
    <Card title={words.ledger} isFlush>
      <Loaded query={first}>
        {(data) => {
          const known = new Set(data.items.map((one) => one.number));
          const items = [...data.items, ...(more?.items ?? []).filter((one) => !known.has(one.number))];
          const cursor = more ? more.next_cursor : data.next_cursor;
          if (items.length === 0) return <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />;
          return (
            <>
              <Table
                caption={words.caption}
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
                    <td>{entry.actor}</td>
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
                  <button type="button" class="small" onClick={() => void api.events(cursor).then((page) => setMore({ items: [...(more?.items ?? []), ...page.items], next_cursor: page.next_cursor }))}>
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
