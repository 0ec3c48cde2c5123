/** Icons, drawn with lines of one width. */

const PATHS: Record<string, string> = {
  overview: "M3 3h6v8H3zM11 3h6v5h-6zM11 10h6v7h-6zM3 13h6v4H3z",
  jobs: "M4 5h12M4 10h12M4 15h8",
  limits: "M3 15a7 7 0 0 1 14 0M10 15l4-5",
  workflows: "M3 4h5v4H3zM12 4h5v4h-5zM7.5 13h5v4h-5zM5.5 8v2.5h9V8M10 10.5V13",
  queues: "M3 5h14v3H3zM3 10.5h14v3H3zM5 16h10",
  schedules: "M10 3a7 7 0 1 0 0 14a7 7 0 0 0 0-14zM10 6v4.2l2.8 1.8",
  workers: "M6 6h8v8H6zM8 3v3M12 3v3M8 14v3M12 14v3M3 8h3M3 12h3M14 8h3M14 12h3",
  dead: "M10 3l7.5 13.5h-15zM10 8v4M10 14.2v.2",
  events: "M3 10h3l2-5 4 10 2-5h3",
  system: "M10 7.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 0 0 0-5.6zM10 3v2M10 15v2M3 10h2M15 10h2M5 5l1.5 1.5M13.5 13.5L15 15M15 5l-1.5 1.5M6.5 13.5L5 15",
  search: "M9 4a5 5 0 1 0 0 10a5 5 0 0 0 0-10zM12.8 12.8L17 17",
  close: "M5 5l10 10M15 5L5 15",
  menu: "M3 6h14M3 10h14M3 14h14",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 0 0 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M15.7 4.3l-1.1 1.1M5.4 14.6l-1.1 1.1",
  moon: "M16 12.5A6.5 6.5 0 0 1 7.5 4a6.5 6.5 0 1 0 8.5 8.5z",
  screen: "M3 4h14v9H3zM7 16h6M10 13v3",
  copy: "M7 7h9v9H7zM4 13V4h9",
  check: "M4 10.5l4 4 8-9",
  retry: "M15.5 8A6 6 0 1 0 16 11M16 4v4h-4",
  pause: "M7 5v10M13 5v10",
  play: "M6 4l10 6-10 6z",
  stop: "M5.5 5.5h9v9h-9z",
  plus: "M10 4v12M4 10h12",
  trash: "M4 6h12M8 6V4h4v2M6 6l1 10h6l1-10",
  external: "M8 4H4v12h12v-4M11 4h5v5M16 4l-7 7",
  down: "M5 8l5 5 5-5",
  left: "M12 5l-5 5 5 5",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.5 2.3c-.7.4-1 .8-1 1.7M10 14.3v.2",
  download: "M10 3v9M6 9l4 4 4-4M4 16h12",
  columns: "M3 4h14v12H3zM8 4v12M12.5 4v12",
  edit: "M4 16l1-4 8-8 3 3-8 8z",
};

export function Icon({ name, size = 16 }: { name: keyof typeof PATHS & string; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
