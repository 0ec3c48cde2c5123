/** System: health, this server, who leads, who takes part, the shared configuration. */

import { api, type Health, type System } from "../api.ts";
import { Ago, Card, Lamp, Loaded, Moment, PageHead, Table } from "../components/basics.tsx";
import { useQuery } from "../lib/query.ts";
import { apiBase } from "../lib/router.ts";
import { duration } from "../lib/time.ts";
import { t } from "../strings.ts";

const words = t.systemPage;

export default function SystemPage() {
  const health = useQuery("health", api.health, { every: 5 });
  const system = useQuery("system", api.system, { every: 10 });
  return (
    <>
      <PageHead title={words.title} />
      <div class="grid">
        <Card title={words.health}>
          <Loaded query={health}>{(data) => <HealthView health={data} />}</Loaded>
        </Card>
        <Card title={words.server}>
          <Loaded query={system}>{(data) => <ServerView system={data} />}</Loaded>
        </Card>
      </div>
      <ClusterView />
    </>
  );
}

function HealthView({ health }: { health: Health }) {
  const lamps: [string, boolean][] = [
    [words.lamps.store, health.store_health],
    [words.lamps.writable, health.store_writable],
    [words.lamps.coordinator, health.coordinator_health],
    [words.lamps.broker, health.broker_health],
  ];
  const tone = { healthy: "good", ok: "good", degraded: "warn" }[health.status] as "good" | "warn" | undefined;
  return (
    <>
      <p class="field">
        <Lamp tone={tone ?? "bad"}>{health.status}</Lamp>
      </p>
      <div class="lamps">
        {lamps.map(([name, isGood]) => (
          <Lamp key={name} tone={isGood ? "good" : "bad"}>
            {name}: {isGood ? t.yes : t.no}
          </Lamp>
        ))}
      </div>
      {health.problems.length > 0 && (
        <ul class="problems">
          {health.problems.map((problem) => (
            <li key={problem.code + problem.text}>
              <p class="warn">
                {problem.text} <span class="reason-code">{problem.code}</span>
              </p>
              <p class="faint">{problem.fix}</p>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function ServerView({ system }: { system: System }) {
  const facts: [string, preact.ComponentChildren][] = [
    [words.version, system.version],
    [words.instance, system.instance_id],
    [words.store, system.store],
    [words.leader, system.current_leader ? `${system.current_leader}${system.is_leader ? ` (${words.thisOne})` : ""}` : words.noLeader],
    [words.started, <Moment at={system.started_at} />],
    [words.uptime, duration(system.uptime * 1_000)],
    [words.links, <><a href={new URL("docs", apiBase).href}>{t.nav.docs}</a>, <a href={new URL("openapi.json", apiBase).href}>{words.openapi}</a>, <a href={new URL("metrics", apiBase).href}>{words.metrics}</a></>],
  ]; // prettier-ignore
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function ClusterView() {
  const cluster = useQuery("cluster", api.cluster, { every: 5 });
  return (
    <Loaded query={cluster}>
      {(data) => (
        <>
          <Card title={words.members} isFlush hint={`${words.coordinator}: ${data.coordinator}${data.term === null ? "" : `, ${words.term.toLowerCase()} ${data.term}`}`}>
            <Table
              caption={words.caption}
              head={
                <>
                  <th>{words.name}</th>
                  <th>{words.role}</th>
                  <th>{words.status}</th>
                  <th>{words.version}</th>
                  <th>{words.host}</th>
                  <th>{words.seen}</th>
                </>
              }
            >
              {data.members.map((member) => (
                <tr key={member.boot_id + member.role}>
                  <td class="strong">{member.worker_id}</td>
                  <td>
                    {member.role}{" "}
                    {member.worker_id === data.current_leader && member.role === "scheduler" && <span class="tag">{words.leader}</span>}
                  </td>
                  <td>
                    <Lamp tone={member.is_alive ? "good" : "bad"}>{member.is_alive ? t.workersPage.alive : t.workersPage.stale}</Lamp>
                  </td>
                  <td>{member.version}</td>
                  <td class="number">
                    {member.host} {member.pid > 0 && <span class="faint">{member.pid}</span>}
                  </td>
                  <td class="number">
                    <Ago at={member.seen_at} />
                  </td>
                </tr>
              ))}
            </Table>
          </Card>
          <Card title={words.configuration}>
            {Object.keys(data.configuration).length === 0 ? (
              <p class="faint">{words.configurationEmpty}</p>
            ) : (
              <dl class="facts">
                {Object.entries(data.configuration).map(([key, value]) => (
                  <div key={key}>
                    <dt>{key}</dt>
                    <dd>{value}</dd>
                  </div>
                ))}
              </dl>
            )}
          </Card>
        </>
      )}
    </Loaded>
  );
}
