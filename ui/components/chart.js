// Numbers over time with axes: the pointer tells the value of a moment, dragging chooses a part of the time.
import { html, useEffect, useRef, useState } from '../lib/view.js';
import { exact } from '../lib/format.js';
import { locale } from '../lib/i18n.js';
import { useMedia } from './basic.js';

const HEIGHT = 110;
/** Room for the numbers beside a plot. */
const BESIDE = 62;
/** Steps between the numbers beside a plot: those of counts, and those of bytes. */
export const COUNTS = Array.from({ length: 36 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));
export const BYTES = Array.from({ length: 50 }, (_, at) => 2 ** at);

/** A moment of the day, by its seconds since 1970. @param {number} seconds */
function moment(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
}

/**
 * Seconds since 1970 and a value for each; `range` is the part that is shown, `zoom` is told the part that somebody chose.
 * Plots with the same `group` show the same moment.
 * @param {{label: string, times: number[], values: number[], shown: (value: number) => string, steps?: number[], range?: [number, number] | null, zoom?: (range: [number, number]) => void, group?: string}} props
 */
export function Chart({ label, times, values, shown, steps, range = null, zoom = () => {}, group = label }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {import('../vendor/uplot.js').default | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const dark = useMedia('(prefers-color-scheme: dark)');
  const latest = useRef({ zoom, shown });
  latest.current = { zoom, shown };
  const draw = () => {
    const drawn = plot.current;
    if (!drawn || times.length === 0) return;
    drawn.setData([times, values], false);
    const [min, max] = range ?? [times[0], times[times.length - 1]];
    drawn.setScale('x', { min, max: Math.max(max, min + 1) });
  };
  useEffect(() => {
    let left = false;
    const observer = new ResizeObserver(() => requestAnimationFrame(() => { if (place.current) plot.current?.setSize({ width: place.current.clientWidth, height: HEIGHT }); }));
    // The library comes when the first plot does; without it the last number stands alone.
    import('../vendor/uplot.js').then(({ default: Library }) => {
      if (left || !place.current) return;
      plot.current = new Library(options(place.current, { group, steps, latest, setAt }), [times, values], place.current);
      observer.observe(place.current);
      draw();
    }, () => {});
    return () => { left = true; observer.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [dark, group]);
  useEffect(draw, [times, values, range?.[0], range?.[1]]);
  const last = values.length ? values[values.length - 1] : 0;
  const seen = at !== null && at < values.length;
  return html`<figure class="plot"><figcaption class="row"><span class="grow quiet small">${label}</span>
      ${seen && html`<time class="small quiet" title=${exact(new Date(times[at] * 1000).toISOString())}>${moment(times[at])}</time>`}<strong>${shown(seen ? values[at] : last)}</strong></figcaption>
    <div ref=${place} class="canvas" role="img" aria-label=${`${label}: ${shown(last)}, ${shown(Math.min(...values, last))} – ${shown(Math.max(...values, last))}`}></div></figure>`;
}

/**
 * @param {HTMLElement} place
 * @param {{group: string, steps: number[] | undefined, latest: {current: {zoom: (range: [number, number]) => void, shown: (value: number) => string}}, setAt: (at: number | null) => void}} wanted
 */
function options(place, { group, steps, latest, setAt }) {
  const style = getComputedStyle(place);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour('ink-3'), font: `11px ${style.fontFamily}`, grid: { stroke: colour('rule'), width: 1 }, ticks: { show: false } };
  const chosen = (/** @type {import('../vendor/uplot.js').default} */ plot) => {
    const { left, width } = plot.select;
    if (width < 4) return;
    latest.current.zoom([plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')]);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  };
  return {
    width: place.clientWidth, height: HEIGHT, legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, sync: { key: group, setSeries: false }, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (/** @type {unknown} */ _, /** @type {number} */ low, /** @type {number} */ high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, size: 28, gap: 9, space: 70, values: (/** @type {unknown} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => moment(tick)) },
      { ...axis, ...(steps ? { incrs: steps } : {}), size: BESIDE, gap: 4, space: 30, values: (/** @type {unknown} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => latest.current.shown(tick)) }],
    series: [{}, { stroke: colour('accent'), fill: colour('accent-soft'), width: 1.5, points: { show: false } }],
    hooks: { setSelect: [chosen], setCursor: [(/** @type {import('../vendor/uplot.js').default} */ plot) => setAt(plot.cursor.idx ?? null)] },
  };
}
