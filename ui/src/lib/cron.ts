/** Cron expressions in words. Expressions without short words are shown as they are. */

const NAMED: Record<string, string> = {
  "@yearly": "yearly, 1 January at 00:00",
  "@annually": "yearly, 1 January at 00:00",
  "@monthly": "monthly, on the 1st at 00:00",
  "@weekly": "Sundays at 00:00",
  "@daily": "daily at 00:00",
  "@midnight": "daily at 00:00",
  "@hourly": "every hour",
};
const DAYS = ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays"];
const DAY_NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/** Says in words when an expression fires; null where there are no short words for it. */
export function cronWords(expression: string): string | null {
  const text = expression.trim().toLowerCase();
  if (text in NAMED) return NAMED[text] ?? null;
  const every = /^@every (.+)$/.exec(text);
  if (every) return `every ${(every[1] ?? "").replace(/(\d+)([a-z]+)/g, "$1 $2 ").trim()}`;
  const fields = text.split(/\s+/);
  if (fields.length === 6) return withSeconds(fields);
  if (fields.length !== 5) return null;
  return fiveFields(fields as Five);
}

type Five = [string, string, string, string, string];

function withSeconds([second = "", ...rest]: string[]): string | null {
  const step = /^\*\/(\d+)$/.exec(second);
  const isEveryMinute = rest.every((field) => field === "*");
  if (second === "*" && isEveryMinute) return "every second";
  if (step && isEveryMinute) return `every ${step[1]} seconds`;
  return second === "0" ? fiveFields(rest as Five) : null;
}

function fiveFields([minute, hour, day, month, weekday]: Five): string | null {
  const days = dayWords(day, month, weekday);
  if (days === null) return null;
  const times = timeWords(minute, hour);
  if (times === null) return null;
  if (!times.startsWith("at ")) return days === "daily" ? times : `${times}, ${days}`;
  return `${days} ${times}`;
}

function timeWords(minute: string, hour: string): string | null {
  const minuteStep = /^\*\/(\d+)$/.exec(minute);
  const hourStep = /^\*\/(\d+)$/.exec(hour);
  const range = /^(\d+)-(\d+)$/.exec(hour);
  const within = range ? ` from ${clock(range[1] ?? "", "00")} to ${clock(range[2] ?? "", "59")}` : "";
  if (hour === "*" || range) {
    if (minute === "*") return `every minute${within}`;
    if (minuteStep) return `every ${minuteStep[1]} minutes${within}`;
    if (minute === "0") return `every hour${within}`;
    if (isNumber(minute)) return `every hour at :${minute.padStart(2, "0")}${within}`;
  }
  if (hourStep && isNumber(minute)) {
    return minute === "0" ? `every ${hourStep[1]} hours` : `every ${hourStep[1]} hours at :${minute.padStart(2, "0")}`;
  }
  const hours = hour.split(",");
  if (isNumber(minute) && hours.every(isNumber) && hours.length <= 4) {
    return `at ${hours.map((one) => clock(one, minute)).join(", ")}`;
  }
  return null;
}

function dayWords(day: string, month: string, weekday: string): string | null {
  if (month !== "*") return null;
  if (day === "*" && weekday === "*") return "daily";
  if (day === "*") return weekdayWords(weekday);
  if (weekday === "*" && isNumber(day)) return `monthly, on the ${ordinal(Number(day))}`;
  return null;
}

function weekdayWords(field: string): string | null {
  if (["1-5", "mon-fri"].includes(field)) return "weekdays";
  if (["0,6", "6,0", "sat,sun", "6,7", "6-7"].includes(field)) return "weekends";
  const numbers = field.split(",").map((one) => (isNumber(one) ? Number(one) % 7 : DAY_NAMES.indexOf(one)));
  if (numbers.some((one) => one < 0)) return null;
  return numbers.map((one) => DAYS[one]).join(", ");
}

function ordinal(number: number): string {
  const ending = number % 100 >= 11 && number % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${ending}`;
}

function clock(hour: string, minute: string): string {
  return `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}
