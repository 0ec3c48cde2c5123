/** Times and durations as people read them. */

/** The zone of shown times. `schedule`: a schedule's times are in its own zone, and all others in the browser's. */
export type Zone = "utc" | "local" | "schedule";
export const ZONES: readonly Zone[] = ["local", "utc", "schedule"];

/** The zone after this one, for a button that switches. */
export function nextZone(zone: Zone): Zone {
  return ZONES[(ZONES.indexOf(zone) + 1) % ZONES.length] as Zone;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Writes a duration in one or two units: 0.4 s, 12 s, 3 m 20 s, 2 h 5 m, 3 d 4 h. */
export function duration(milliseconds: number): string {
  const span = Math.max(milliseconds, 0);
  if (span > 0 && span < 1) return "< 1 ms";
  if (span < SECOND) return `${Math.round(span)} ms`;
  if (span < 10 * SECOND) return `${(span / SECOND).toFixed(1)} s`;
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`;
  if (span < HOUR) return two(span, MINUTE, "m", SECOND, "s");
  if (span < DAY) return two(span, HOUR, "h", MINUTE, "m");
  return two(span, DAY, "d", HOUR, "h");
}

function two(span: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((span % large) / small);
  const whole = `${Math.floor(span / large)} ${largeUnit}`;
  return rest > 0 ? `${whole} ${rest} ${smallUnit}` : whole;
}

/** Writes how far a moment is from now: "3 m ago", "in 2 h". */
export function relative(moment: string | number | Date, now: number): string {
  const span = new Date(moment).getTime() - now;
  if (Math.abs(span) < SECOND) return "now";
  const words = duration(Math.abs(span) < 10 * SECOND ? Math.round(Math.abs(span) / SECOND) * SECOND : Math.abs(span));
  const first = words.replace(/\.0 s$/, " s").split(" ").slice(0, 2).join(" ");
  return span < 0 ? `${first} ago` : `in ${first}`;
}

/** Writes a moment with date and seconds, in UTC, in the browser's zone, or in that of a schedule: `place`, such as Europe/Berlin. */
export function absolute(moment: string | number | Date, zone: Zone, place?: string): string {
  const date = new Date(moment);
  if (zone === "schedule" && place) return there(date, place);
  if (zone === "utc") return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const parts = [date.getFullYear(), pad(date.getMonth() + 1), pad(date.getDate())].join("-");
  return `${parts} ${clock(date, zone)}`;
}

/** The same in a zone by its name; in UTC if this browser does not know the zone. */
function there(date: Date, place: string): string {
  const options = { timeZone: place, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
  try {
    const parts = new Map(new Intl.DateTimeFormat("en-US", options).formatToParts(date).map((part) => [part.type, part.value]));
    const [day, time] = [["year", "month", "day"], ["hour", "minute", "second"]].map((names) => names.map((name) => parts.get(name as Intl.DateTimeFormatPartTypes)));
    return `${day?.join("-")} ${time?.join(":")} ${place}`;
  } catch {
    return absolute(date, "utc");
  }
}

/** Writes the time of day with seconds. */
export function clock(moment: string | number | Date, zone: Zone): string {
  const date = new Date(moment);
  if (zone === "utc") return date.toISOString().slice(11, 19);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** Writes the time of day without seconds. */
export function hourAndMinute(moment: string | number | Date, zone: Zone): string {
  return clock(moment, zone).slice(0, 5);
}

/** Writes a moment at the axis of a chart: the day where a bucket is an hour or longer and the day begins, else the time. */
export function axisTime(moment: number, stepSeconds: number, zone: Zone): string {
  const time = hourAndMinute(moment, zone);
  return stepSeconds >= 3_600 || time === "00:00" ? absolute(moment, zone).slice(5, 10) : time;
}

/** Writes a moment for an `<input type="datetime-local">`, in the chosen zone. */
export function forInput(moment: Date, zone: Zone): string {
  return absolute(moment, zone).slice(0, 16).replace(" ", "T");
}

/** Reads such an input. */
export function fromInput(text: string, zone: Zone): Date {
  return new Date(zone === "utc" ? `${text}Z` : text);
}

function pad(number: number): string {
  return String(number).padStart(2, "0");
}
