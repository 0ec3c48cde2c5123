/** Workers as they last described themselves. */

import { api, type Worker } from "../api.ts";
import { Ago, Empty, Lamp, Link, Loaded, Meter, PageHead, Table } from "../components/basics.tsx";
import { useQuery } from "../lib/query.ts";
import { t } from "../strings.ts";

const words = t.workersPage;

export default function WorkersPage() {
  const workers = useQuery("workers", api.workers, { isLive: true, every: 3 });
  const system = useQuery("system", api.system, { every: 60 });
  const columns = words.columns;
  return (
    <>
      <PageHead title={words.title} />
      <div class="card">
        <Loaded query={workers}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />
            ) : (
              <Table
                caption={words.caption}
                head={
                  <>
                    <th>{columns.name}</th>
                    <th>{columns.state}</th>
                    <th>{columns.busy}</th>
                    <th>{columns.queues}</th>
                    <th>{columns.types}</th>
                    <th>{columns.version}</th>
                    <th>{columns.host}</th>
                    <th>{columns.started}</th>
                    <th>{columns.seen}</th>
                  </>
                }
              >
                {data.items.map((worker) => (
                  <Row key={worker.boot_id} worker={worker} version={system.data?.version ?? worker.version} />
                ))}
              </Table>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function Row({ worker, version }: { worker: Worker; version: string }) {
  return (
    <tr>
      <td>
        <Link to={`/jobs?worker_id=${encodeURIComponent(worker.worker_id)}`} class="strong">
          {worker.worker_id}
        </Link>
      </td>
      <td>
        <Lamp tone={!worker.is_alive ? "bad" : worker.is_draining ? "warn" : "good"}>
          {!worker.is_alive ? words.stale : worker.is_draining ? words.draining : words.alive}
        </Lamp>
      </td>
      <td class="number">
        <Meter value={worker.busy} max={worker.slots} label={words.slots(worker.busy, worker.slots)} />
        {worker.busy}/{worker.slots}
      </td>
      <td>
        {worker.queues.map((queue) => (
          <span key={queue} class="tag">
            {queue}
          </span>
        ))}
      </td>
      <td>
        {worker.types === null ? (
          words.allTypes
        ) : (
          <details>
            <summary>{words.types(worker.types.length)}</summary>
            {worker.types.map((type) => (
              <span key={type} class="tag">
                {type}
              </span>
            ))}
          </details>
        )}
      </td>
      <td class={worker.version === version ? "" : "bad"} title={worker.version === version ? undefined : words.differs(version)}>
        {worker.version}
      </td>
      <td class="number">
        {worker.host} <span class="faint">{worker.pid}</span>
      </td>
      <td class="number">
        <Ago at={worker.started_at} />
      </td>
      <td class="number">
        <Ago at={worker.seen_at} />
      </td>
    </tr>
  );
}
