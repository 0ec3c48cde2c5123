/** The pages of the dashboard: one table for the rail, the command palette and the keyboard. */

import { t } from "../strings.ts";

export interface NavigationItem {
  path: string;
  label: string;
  icon: string;
  /** The second key of `g …`. */
  key: string;
}

export const NAVIGATION: readonly NavigationItem[] = [
  { path: "/", label: t.nav.overview, icon: "overview", key: "o" },
  { path: "/jobs", label: t.nav.jobs, icon: "jobs", key: "j" },
  { path: "/queues", label: t.nav.queues, icon: "queues", key: "q" },
  { path: "/limits", label: t.nav.limits, icon: "limits", key: "l" },
  { path: "/schedules", label: t.nav.schedules, icon: "schedules", key: "s" },
  { path: "/workflows", label: t.nav.workflows, icon: "workflows", key: "f" },
  { path: "/workers", label: t.nav.workers, icon: "workers", key: "w" },
  { path: "/dead", label: t.nav.dead, icon: "dead", key: "d" },
  { path: "/events", label: t.nav.events, icon: "events", key: "e" },
  { path: "/system", label: t.nav.system, icon: "system", key: "y" },
];
