// A list that draws only the rows that are seen, whatever its length.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/view.js';

export const ROW = 28;
const SPARE = 8;

/**
 * @param {{count: number, label: string, chosen: number, choose: (at: number) => void, row: (at: number) => any, idOf: (at: number) => string, stick: boolean}} props
 * `chosen` is a place or -1; with `stick` the list stays at its end while it grows, as long as nobody scrolls away.
 */
export function VirtualList({ count, label, chosen, choose, row, idOf, stick }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 400 });
  const atEnd = useRef(true);
  const look = () => {
    const list = place.current;
    if (!list) return;
    atEnd.current = list.scrollTop + list.clientHeight >= list.scrollHeight - ROW;
    setView((old) => (old.top === list.scrollTop && old.height === list.clientHeight ? old : { top: list.scrollTop, height: list.clientHeight }));
  };
  useEffect(() => {
    const list = place.current;
    if (!list) return undefined;
    const observer = new ResizeObserver(look);
    observer.observe(list);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const list = place.current;
    if (list && stick && atEnd.current && chosen < 0) list.scrollTop = list.scrollHeight;
    look();
  }, [count, stick]);
  useLayoutEffect(() => {
    const list = place.current;
    if (!list || chosen < 0 || chosen >= count) return;
    const top = chosen * ROW;
    if (top < list.scrollTop || top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 3;
    look();
  }, [chosen, chosen < count]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const page = Math.max(1, Math.floor(view.height / ROW) - 1);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: chosen + 1, ArrowUp: chosen < 0 ? count - 1 : chosen - 1, PageDown: chosen + page, PageUp: chosen - page, Home: 0, End: count - 1 };
    const next = steps[event.key];
    if (next === undefined || count === 0) return;
    event.preventDefault();
    choose(Math.min(count - 1, Math.max(0, next)));
  };
  const first = Math.max(0, Math.floor(view.top / ROW) - SPARE);
  const last = Math.min(count, Math.ceil((view.top + view.height) / ROW) + SPARE);
  const rows = [];
  for (let at = first; at < last; at += 1) {
    rows.push(html`<div key=${at} id=${idOf(at)} role="option" aria-selected=${at === chosen ? 'true' : 'false'} aria-setsize=${count} aria-posinset=${at + 1}
      class=${at === chosen ? 'vrow chosen' : 'vrow'} style=${{ top: `${at * ROW}px` }} onClick=${() => choose(at)}>${row(at)}</div>`);
  }
  return html`<div class="vlist" ref=${place} role="listbox" aria-label=${label} tabindex="0" onScroll=${look} onKeyDown=${keys}
    aria-activedescendant=${chosen >= first && chosen < last ? idOf(chosen) : undefined}>
    <div class="vspace" role="presentation" style=${{ height: `${count * ROW}px` }}>${rows}</div>
  </div>`;
}
