/** The jobs of a list by time, above it: dragging over the bars filters the list to that time. */

import { useRef, useState } from "preact/hooks";
import { api, type Histogram } from "../api.ts";
import { type Filter, searchOf } from "../lib/filter.ts";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { setParameters } from "../lib/router.ts";
import { absolute } from "../lib/time.ts";
import { t } from "../strings.ts";
import { Table } from "./basics.tsx";

const HEIGHT = 56;

export function HistogramCard({ filter }: { filter: Filter }) {
  const query = searchOf(filter) ?? "";
  const found = useQuery(`histogram ${query}`, (signal) => api.histogram(query, signal), { every: 15 });
  const [isTable, setTable] = useState(false);
  const data = found.data;
  if (found.error) return null;
  const total = data?.counts.reduce((sum, count) => sum + count, 0) ?? 0;
  return (
    <div class="card histogram">
      {data === null ? (
        <div class="histogram-space" />
      ) : isTable ? (
        <Rows data={data} />
      ) : (
        <Bars data={data} filter={filter} />
      )}
      <div class="histogram-foot">
        <span class="hint">{data && t.histogram.words(total, data.by, data.partial)}</span>
        <button type="button" class="quiet small" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? t.histogram.chart : t.table}
        </button>
      </div>
    </div>
  );
}

function timeOf(data: Histogram, index: number): number {
  return new Date(data.since).getTime() + index * data.step * 1_000;
}

/** The day where bars are days or longer; the day and the time where the bars reach over midnight. */
function labelOf(time: number, data: Histogram): string {
  const text = absolute(time, zone.value);
  if (data.step >= 86_400) return text.slice(0, 10);
  const isOneDay = absolute(timeOf(data, 0), zone.value).slice(0, 10) === absolute(timeOf(data, data.counts.length), zone.value).slice(0, 10);
  return data.step < 60 ? text.slice(11, 19) : isOneDay ? text.slice(11, 16) : text.slice(5, 16);
}

/** Limits the list to a stretch of bars. */
function choose(data: Histogram, filter: Filter, first: number, last: number): void {
  const [from, until] = [timeOf(data, first), timeOf(data, last + 1)].map((time) => new Date(time).toISOString().replace(".000", "")) as [string, string];
  if (data.by === "created") {
    setParameters({ since: from, until });
    return;
  }
  const others = (filter.q ?? "").split(/\s+/).filter((term) => term && !term.startsWith("finished:"));
  setParameters({ q: [...others, `finished:>=${from}`, `finished:<${until}`].join(" ") });
}

function Bars({ data, filter }: { data: Histogram; filter: Filter }) {
  const box = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const most = Math.max(...data.counts, 1);
  const width = 100 / Math.max(data.counts.length, 1);
  const at = (event: PointerEvent): number => {
    const area = (box.current as SVGSVGElement).getBoundingClientRect();
    const index = Math.floor(((event.clientX - area.left) / area.width) * data.counts.length);
    return Math.min(Math.max(index, 0), data.counts.length - 1);
  };
  const [low, high] = drag === null ? [-1, -1] : [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
  const labels = [0, Math.floor(data.counts.length / 2), data.counts.length];
  return (
    <svg
      ref={box}
      class="histogram-bars"
      width="100%"
      height={HEIGHT + 18}
      role="img"
      aria-label={t.histogram.label}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag({ from: at(event), to: at(event) });
      }}
      onPointerMove={(event) => drag && setDrag({ ...drag, to: at(event) })}
      onPointerUp={() => {
        if (drag) choose(data, filter, low, high);
        setDrag(null);
      }}
      onPointerCancel={() => setDrag(null)}
    >
      {drag && <rect class="chosen" x={`${low * width}%`} width={`${(high - low + 1) * width}%`} y={0} height={HEIGHT} />}
      {data.counts.map((count, index) => (
        <g key={index}>
          <rect class="bar" x={`${index * width}%`} width={`${width * 0.86}%`} y={HEIGHT - (count ? Math.max((count / most) * HEIGHT, 2) : 0)} height={count ? Math.max((count / most) * HEIGHT, 2) : 0} />
          <rect class="hit" x={`${index * width}%`} width={`${width}%`} y={0} height={HEIGHT}>
            <title>{`${absolute(timeOf(data, index), zone.value)}: ${t.jobs(count)}`}</title>
          </rect>
        </g>
      ))}
      {labels.map((index, place) => (
        <text key={place} x={`${index * width}%`} y={HEIGHT + 14} text-anchor={(["start", "middle", "end"] as const)[place]}>
          {labelOf(timeOf(data, index), data)}
        </text>
      ))}
    </svg>
  );
}

function Rows({ data }: { data: Histogram }) {
  return (
    <div class="histogram-table">
      <Table
        caption={t.histogram.label}
        head={
          <>
            <th>{t.histogram.time}</th>
            <th class="right">{t.nav.jobs}</th>
          </>
        }
      >
        {data.counts.map((count, index) =>
          count === 0 ? null : (
            <tr key={index}>
              <td class="number">{absolute(timeOf(data, index), zone.value)}</td>
              <td class="right">{t.count(count)}</td>
            </tr>
          ),
        )}
      </Table>
    </div>
  );
}
