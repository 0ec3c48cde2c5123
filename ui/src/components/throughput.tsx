/** Finished and failed jobs of a stretch of the history, drawn by uPlot. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { History } from "../api.ts";
import { byWholeMinute } from "../lib/rates.ts";
import { theme, zone } from "../lib/preferences.ts";
import { axisTime } from "../lib/time.ts";
import { t } from "../strings.ts";

export default function Throughput({ history }: { history: History }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const first = Date.parse(history.since) / 1_000;
  const finished = byWholeMinute(history, "succeeded", Date.now());
  const failed = byWholeMinute(history, "failed", Date.now()).slice(0, finished.length);
  const data = [finished.map((_, index) => first + index * history.step), finished, failed] as uPlot.AlignedData;
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const style = getComputedStyle(element);
    const colour = (name: string): string => style.getPropertyValue(name);
    const resolved = (name: string): string => {
      const probe = document.createElement("span");
      probe.style.color = `var(${name})`;
      element.append(probe);
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found;
    };
    const axis = { stroke: resolved("--text-3"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: `11px ${colour("--sans")}` };
    plot.current = new uPlot(
      {
        width: element.clientWidth,
        height: 180,
        cursor: { show: false },
        legend: { show: false },
        scales: { x: {}, y: { range: (_, __, high) => [0, Math.max(high * 1.1, 4)] } },
        axes: [
          { ...axis, values: (_, moments) => moments.map((one) => axisTime(one * 1_000, history.step, zone.peek())) },
          { ...axis, size: 44 },
        ],
        series: [
          {},
          { label: t.overview.finished, stroke: resolved("--good-fill"), width: 2, fill: resolved("--accent-soft"), points: { show: false } },
          { label: t.overview.failedAttempts, stroke: resolved("--bad-fill"), width: 2, points: { show: false } },
        ],
      },
      data,
      element,
    );
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 180 }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
    };
  }, [theme.value, zone.value, history.step]);
  useEffect(() => plot.current?.setData(data), [history]);
  const words = t.overview.throughputWords(finished.reduce(add, 0), failed.reduce(add, 0));
  return (
    <>
      <div class="chart" ref={box} role="img" aria-label={words} />
      <div class="legend" aria-hidden="true">
        <span>
          <i class="swatch-good" />
          {t.overview.finished}
        </span>
        <span>
          <i class="swatch-bad" />
          {t.overview.failedAttempts}
        </span>
      </div>
    </>
  );
}

function add(sum: number, one: number): number {
  return sum + one;
}
