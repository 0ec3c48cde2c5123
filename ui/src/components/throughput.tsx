/** Finished and dead jobs per minute since the page was opened, drawn by uPlot. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { perMinute } from "../lib/rates.ts";
import { theme, zone } from "../lib/preferences.ts";
import { hourAndMinute } from "../lib/time.ts";
import { samples } from "../live.ts";
import { t } from "../strings.ts";

/** How much time the chart shows at least. */
const SHORTEST_SECONDS = 300;

export default function Throughput() {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const rates = perMinute(samples.value);
  const data = [rates.map((one) => one.at / 1_000), rates.map((one) => one.completed), rates.map((one) => one.dead)] as uPlot.AlignedData;
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
        scales: { x: { range: (_, low) => [Math.min(low || Infinity, Date.now() / 1_000 - SHORTEST_SECONDS), Date.now() / 1_000] }, y: { range: (_, __, high) => [0, Math.max(high * 1.1, 4)] } },
        axes: [
          { ...axis, values: (_, moments) => moments.map((one) => hourAndMinute(one * 1_000, zone.peek())) },
          { ...axis, size: 44 },
        ],
        series: [
          {},
          { label: t.overview.finished, stroke: resolved("--good-fill"), width: 2, fill: resolved("--accent-soft"), points: { show: false } },
          { label: t.overview.died, stroke: resolved("--bad-fill"), width: 2, points: { show: false } },
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
  }, [theme.value, zone.value]);
  useEffect(() => plot.current?.setData(data), [samples.value]);
  const last = rates[rates.length - 1];
  const words = last ? `${t.overview.finished} ${Math.round(last.completed)}, ${t.overview.died} ${Math.round(last.dead)}` : "";
  return (
    <>
      <div class="chart" ref={box} role="img" aria-label={`${t.overview.throughputHint}: ${words}`} />
      <div class="legend" aria-hidden="true">
        <span>
          <i class="swatch-good" />
          {t.overview.finished}
        </span>
        <span>
          <i class="swatch-bad" />
          {t.overview.died}
        </span>
      </div>
    </>
  );
}
