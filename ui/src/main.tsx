/** Starts the dashboard: theme, router, live connection, and the page that the URL names. */

import { type ComponentType, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, lookForSession } from "./api.ts";
import { Empty, Failure, Link, Loading } from "./components/basics.tsx";
import { Shell } from "./components/shell.tsx";
import { startTheme } from "./lib/preferences.ts";
import { path, segments, startRouter, uiBase } from "./lib/router.ts";
import { startLive } from "./live.ts";
import { t } from "./strings.ts";

type Page = ComponentType<{ id: string }>;
interface PageRoute {
  /** The parts of the path; `:` stands for any one part. */
  pattern: string;
  title: string;
  load: () => Promise<{ default: Page }>;
}

const PAGES: readonly PageRoute[] = [
  { pattern: "", title: t.overview.title, load: () => import("./pages/overview.tsx") },
  { pattern: "jobs", title: t.jobsPage.title, load: () => import("./pages/jobs.tsx") },
  { pattern: "jobs/:", title: t.job.title, load: () => import("./pages/job.tsx") },
  { pattern: "limits", title: t.limitsPage.title, load: () => import("./pages/limits.tsx") },
  { pattern: "queues", title: t.queuesPage.title, load: () => import("./pages/queues.tsx") },
  { pattern: "schedules", title: t.schedulesPage.title, load: () => import("./pages/schedules.tsx") },
  { pattern: "schedules/:", title: t.schedulesPage.title, load: () => import("./pages/schedule.tsx") },
  { pattern: "workflows", title: t.workflowsPage.title, load: () => import("./pages/workflows.tsx") },
  { pattern: "workflows/:", title: t.workflowsPage.title, load: () => import("./pages/workflows.tsx") },
  { pattern: "workers", title: t.workersPage.title, load: () => import("./pages/workers.tsx") },
  { pattern: "dead", title: t.deadPage.title, load: () => import("./pages/dead_letters.tsx") },
  { pattern: "events", title: t.eventsPage.title, load: () => import("./pages/events.tsx") },
  { pattern: "system", title: t.systemPage.title, load: () => import("./pages/system.tsx") },
];

function routeOf(parts: readonly string[]): { route: PageRoute; id: string } | null {
  for (const route of PAGES) {
    const wanted = route.pattern.split("/").filter(Boolean);
    if (wanted.length !== parts.length) continue;
    if (wanted.every((word, index) => word === ":" || word === parts[index])) {
      return { route, id: parts[wanted.indexOf(":")] ?? "" };
    }
  }
  return null;
}

const loaded = new Map<string, Page>();

function App() {
  const found = routeOf(segments.value);
  const pattern = found?.route.pattern ?? null;
  const [, setRound] = useState(0);
  const [failed, setFailed] = useState<string | null>(null);
  useEffect(() => {
    document.title = found ? `${found.id ? `${found.id} · ` : ""}${found.route.title} · ${t.app}` : `${t.errors.notFound} · ${t.app}`;
    if (found === null || loaded.has(found.route.pattern)) return;
    found.route.load().then(
      (module) => {
        loaded.set(found.route.pattern, module.default);
        setRound((round) => round + 1);
      },
      (error: unknown) => setFailed(String(error)),
    );
  }, [pattern, found?.id]);
  const isFirst = useFirst();
  useEffect(() => {
    // Whoever follows a link by keyboard goes on at the top of the new page.
    if (!isFirst()) document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }, [path.value, loaded.has(pattern ?? "")]);
  const PageComponent = pattern === null ? undefined : loaded.get(pattern);
  return (
    <Shell>
      {found === null ? (
        <NotFound />
      ) : PageComponent ? (
        <PageComponent key={pattern} id={found.id} />
      ) : failed ? (
        <Failure error={new ApiError(0, "load_failed", failed)} retry={() => location.reload()} />
      ) : (
        <Loading />
      )}
    </Shell>
  );
}

function useFirst(): () => boolean {
  const [start] = useState(path.peek());
  const [seen] = useState({ moved: false });
  return () => {
    if (path.peek() !== start) seen.moved = true;
    return !seen.moved;
  };
}

function NotFound() {
  return (
    <Empty title={`${t.errors.notFound} 404`} body={t.errors.notFoundBody}>
      <Link to="/">{t.errors.home}</Link>
    </Empty>
  );
}

// Written out in full: a browser looks for the icon again when the path changes.
for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel="icon"]')) link.href = new URL("icon.svg", uiBase).href;
startTheme();
startRouter();
startLive();
void lookForSession().catch(() => undefined);
render(<App />, document.getElementById("app") as HTMLElement);
