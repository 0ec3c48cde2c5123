/** System: health, this server, who leads, who takes part, the shared configuration. */

import { useState } from "preact/hooks";
import { access, api, type Check, type Health, type Setting, type StoreSizes, type System } from "../api.ts";
import { Ago, Card, Lamp, Link, Loaded, Moment, PageHead, Remedy, Table } from "../components/basics.tsx";
import { ask } from "../components/dialog.tsx";
import { Permitted } from "../components/permitted.tsx";
import { attempt } from "../components/toasts.tsx";
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
      <Checks />
      <ClusterView />
      <div class="grid">
        <Store />
        <LeaderHistory />
      </div>
      <Settings />
      {maySeeTokens() && <Tokens />}
    </>
  );
}

const TONES = { ok: "good", info: "idle", warning: "warn", critical: "bad" } as const;

/** All checks; those that found something first. */
function Checks() {
  const checks = useQuery("checks", api.checks, { every: 10 });
  const [isWhole, setWhole] = useState(false);
  return (
    <Card
      title={words.checks}
      isFlush
      hint={checks.data && words.checked(checks.data.items.length, checks.data.items.filter((one) => one.status !== "ok").length)}
      actions={
        <>
          <button type="button" class="small" onClick={checks.reload}>
            {words.checkAgain}
          </button>{" "}
          <button type="button" class="small" aria-pressed={isWhole} onClick={() => setWhole(!isWhole)}>
            {isWhole ? words.onlyFound : words.allChecks}
          </button>
        </>
      }
    >
      <Loaded query={checks}>
        {(data) => {
          const found = data.items.filter((one) => isWhole || one.status !== "ok");
          return found.length === 0 ? <p class="faint card-body">{words.nothingFound}</p> : <CheckTable items={found} />;
        }}
      </Loaded>
    </Card>
  );
}

function CheckTable({ items }: { items: Check[] }) {
  return (
    <Table
      caption={words.checks}
      isCards
      head={
        <>
          <th>{words.status}</th>
          <th class="fill">{words.check}</th>
          <th>{words.code}</th>
          <th>{t.overview.fix}</th>
        </>
      }
    >
      {[...items].sort((one, other) => Number(one.status === "ok") - Number(other.status === "ok")).map((one) => (
        <tr key={one.code}>
          <td>
            <Lamp tone={TONES[one.status]}>{words.results[one.status]}</Lamp>
          </td>
          <td class="fill">{one.link ? <Link to={one.link} class="sentence">{one.text}</Link> : <span class="sentence">{one.text}</span>}</td>
          <td>
            <code class="faint">{one.code}</code>
          </td>
          <td>{one.fix && <Remedy text={one.fix} />}</td>
        </tr>
      ))}
    </Table>
  );
}

function Store() {
  const sizes = useQuery("store sizes", api.storeSizes, { every: 60 });
  return (
    <Card title={words.store} isFlush hint={sizes.data?.kind}>
      <Loaded query={sizes}>{(data) => <StoreView sizes={data} />}</Loaded>
    </Card>
  );
}

function StoreView({ sizes }: { sizes: StoreSizes }) {
  const missing = [...sizes.missing_migrations, ...sizes.unknown_migrations];
  const facts: [string, string][] = [
    [words.size, t.bytes(sizes.tables.filter((one) => one.name !== "free pages in it").reduce((sum, one) => sum + one.bytes, 0))],
    [words.free, sizes.free_bytes === null ? t.none : t.bytes(sizes.free_bytes)],
    [words.migrations, missing.length ? missing.join(", ") : words.migrated],
    ...Object.entries(sizes.retention).map(([name, seconds]): [string, string] => [words.kept(name), seconds === null ? words.forEver : duration(seconds * 1_000)]),
  ]; // prettier-ignore
  return (
    <>
      <div class="card-body">
        <Facts facts={facts} />
      </div>
      <Table
        caption={words.tables}
        head={
          <>
            <th>{words.tableName}</th>
            <th class="right">{words.rows}</th>
            <th class="right">{words.size}</th>
          </>
        }
      >
        {sizes.tables.slice(0, 12).map((one) => (
          <tr key={one.name}>
            <td>
              <code>{one.name}</code>
            </td>
            <td class="right">{one.rows === null ? <span class="faint">{t.none}</span> : `≈ ${t.count(one.rows)}`}</td>
            <td class="right number">{t.bytes(one.bytes)}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function LeaderHistory() {
  const leaders = useQuery("leaders", api.leaders, { every: 15 });
  return (
    <Card title={words.leaderHistory} isFlush hint={leaders.data && <>{words.since} <Ago at={leaders.data.since} /></>}>
      <Loaded query={leaders}>
        {(data) =>
          data.items.length === 0 ? (
            <p class="faint card-body">{words.noLeaderYet}</p>
          ) : (
            <Table
              caption={words.leaderHistory}
              head={
                <>
                  <th>{words.leader}</th>
                  <th class="right">{words.term}</th>
                  <th>{words.since}</th>
                </>
              }
            >
              {data.items.slice(0, 20).map((one) => (
                <tr key={`${one.name}${one.term}`}>
                  <td class="strong">{one.name}</td>
                  <td class="right">{one.term}</td>
                  <td class="number">
                    <Moment at={one.seen_at} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Card>
  );
}

/** Every setting of the server that answers, and where its value comes from; first those that somebody has set. */
function Settings() {
  const settings = useQuery("settings", api.settings, { every: 300 });
  const [isWhole, setWhole] = useState(false);
  return (
    <Card
      title={words.settings}
      isFlush
      hint={settings.data?.instance_id}
      actions={
        <button type="button" class="small" aria-pressed={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? words.onlySet : words.allSettings}
        </button>
      }
    >
      <Loaded query={settings}>
        {(data) => {
          const shown: Setting[] = data.items.filter((one) => isWhole || !one.is_default);
          return shown.length === 0 ? (
            <p class="faint card-body">{words.allDefault}</p>
          ) : (
            <Table
              caption={words.settings}
              head={
                <>
                  <th>{words.key}</th>
                  <th class="fill">{words.value}</th>
                  <th>{words.origin}</th>
                </>
              }
            >
              {shown.map((one) => (
                <tr key={one.name}>
                  <td>
                    <code>{one.name}</code>
                  </td>
                  <td class="fill">
                    <div class="clip" title={one.value}>
                      {one.value === "" ? t.none : one.value}
                    </div>
                  </td>
                  <td class={one.is_default ? "faint" : ""}>{one.origin}</td>
                </tr>
              ))}
            </Table>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Whether the caller may see tokens: where none is needed, or an administrator. */
function maySeeTokens(): boolean {
  const me = access.value;
  return me !== null && (!me.requires_token || me.role === "admin");
}

function Tokens() {
  const tokens = useQuery("tokens", api.tokens, { every: 60 });
  const items = tokens.data?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Card title={words.tokens} isFlush>
      <Table
        caption={words.tokens}
        head={
          <>
            <th>{words.name}</th>
            <th>{words.role}</th>
            <th>{words.status}</th>
            <th>{t.nav.queues}</th>
            <th>{words.created}</th>
            <th>{words.expires}</th>
          </>
        }
      >
        {items.map((one) => (
          <tr key={one.id}>
            <td class="strong">{one.name}</td>
            <td>{one.role}</td>
            <td>
              <Lamp tone={one.is_live ? "good" : "idle"}>{one.is_live ? words.valid : words.invalid}</Lamp>
            </td>
            <td>{one.queues.length ? one.queues.join(", ") : words.allQueues}</td>
            <td class="number">
              <Ago at={one.created_at} />
            </td>
            <td class="number">
              <Ago at={one.expires_at} fallback={t.never} />
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function Facts({ facts }: { facts: [string, preact.ComponentChildren][] }) {
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
  return <Facts facts={facts} />;
}

async function transferLead(to: string): Promise<boolean> {
  if ((await ask({ title: words.transferTitle(to), body: words.transferBody, action: words.transfer })) === null) return false;
  return attempt(() => api.transferLead(to), (done) => words.transferred(done.current_leader, done.previous_leader));
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
                  <th>
                    <span class="sr-only">{t.actions}</span>
                  </th>
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
                  <td class="right">
                    {member.role === "scheduler" && data.current_leader !== null && member.worker_id !== data.current_leader && (
                      <Permitted needs="cluster.edit" class="small" onClick={() => void transferLead(member.worker_id).then((isDone) => isDone && cluster.reload())}>
                        {words.transfer}
                      </Permitted>
                    )}
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
