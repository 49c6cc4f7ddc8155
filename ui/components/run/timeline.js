// The run as a picture of time: waiting in the queue, attempts, tools, waiting for a person; and a scrubber to any event.
import { html, useEffect, useMemo, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { duration, number, now } from '../../lib/format.js';

/** Longest log that is drawn whole. */
const MOST = 2000;

/** @param {import('../../lib/run-log.js').Event[]} events @param {number} end */
function spans(events, end) {
  /** @type {{kind: string, from: number, to: number, seq: number, text: string}[]} */
  const found = [];
  let state = { kind: 'queued', from: new Date(events[0].ts).getTime(), seq: 1 };
  let before = state.from;
  for (const event of events) {
    const at = new Date(event.ts).getTime();
    if (event.type === 'conversation.state.changed') {
      found.push({ ...state, to: at, text: t(`status.${state.kind}`) });
      state = { kind: event.data.to, from: at, seq: event.seq };
    } else if (event.type === 'assistant.tool_call' || event.type === 'assistant.command_execution') {
      found.push({ kind: 'tool', from: before, to: at, seq: event.seq, text: event.data.tool ?? event.data.command });
    }
    before = at;
  }
  if (!['succeeded', 'failed', 'canceled'].includes(state.kind)) found.push({ ...state, to: end, text: t(`status.${state.kind}`) });
  return found;
}

/** The tokens used so far, as a line of steps. @param {import('../../lib/run-log.js').Event[]} events @param {number} begin @param {number} whole */
function used(events, begin, whole) {
  let sum = 0;
  const steps = events.filter((event) => event.type === 'usage.reported').map((event) => { sum += (event.data.input_tokens ?? 0) + (event.data.output_tokens ?? 0); return { x: ((new Date(event.ts).getTime() - begin) / whole) * 1000, sum }; });
  if (steps.length === 0 || sum === 0) return { points: '', most: 0 };
  let before = 0;
  const points = steps.flatMap(({ x, sum: now }) => { const pair = [`${x},${23 - (before / sum) * 21}`, `${x},${23 - (now / sum) * 21}`]; before = now; return pair; });
  return { points: ['0,23', ...points, '1000,2'].join(' '), most: sum };
}

/** @param {{log: import('../../lib/run-log.js').RunLog, full: number, at: number | null, setAt: (seq: number | null) => void, choose: (seq: number) => void}} props */
export function Timeline({ log, full, at, setAt, choose }) {
  const [events, setEvents] = useState(/** @type {import('../../lib/run-log.js').Event[]} */ ([]));
  const [moved, setMoved] = useState(/** @type {number | null} */ (null));
  const head = log.head.value;
  const short = head > 0 && head <= MOST;
  useEffect(() => {
    if (!short || events.length >= head) return;
    log.history(events.length + 1, head).then((more) => setEvents((old) => (old.length + 1 === more[0]?.seq ? [...old, ...more] : old)), () => {});
  }, [log, head]);
  const running = log.state.value === 'live' || log.state.value === 'lost';
  const end = events.length ? (running ? Math.max(now.value, new Date(events[events.length - 1].ts).getTime()) : new Date(events[events.length - 1].ts).getTime()) : 0;
  const drawn = useMemo(() => (events.length ? spans(events, end) : []), [events, end]);
  const begin = events.length ? new Date(events[0].ts).getTime() : 0;
  const whole = Math.max(1, end - begin);
  // What is drawn: a part of the whole time, in thousandths.
  const [view, setView] = useState({ from: 0, width: 1000 });
  const zoom = (/** @type {number} */ by) => setView((old) => { const width = Math.min(1000, Math.max(10, old.width * by)); return { width, from: Math.min(1000 - width, Math.max(0, old.from + (old.width - width) / 2)) }; });
  const pan = (/** @type {number} */ by) => setView((old) => ({ ...old, from: Math.min(1000 - old.width, Math.max(0, old.from + old.width * by)) }));
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const act = { '+': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), 0: () => setView({ from: 0, width: 1000 }) }[event.key];
    if (act) { event.preventDefault(); act(); }
  };
  const tokens = useMemo(() => used(events, begin, whole), [events, begin, whole]);
  // How long each kind took in all, in the order in which they first came.
  const kinds = [...Map.groupBy(drawn, (span) => span.kind)].map(([kind, own]) => /** @type {[string, number]} */ ([kind, own.reduce((sum, span) => sum + span.to - span.from, 0)]));
  const time = (/** @type {number} */ place) => duration((place / 1000) * whole);
  const value = moved ?? at ?? full;
  useEffect(() => {
    if (moved === null) return undefined;
    const timer = setTimeout(() => { setAt(moved >= full ? null : moved); setMoved(null); }, 250);
    return () => clearTimeout(timer);
  }, [moved]);
  return html`<section class="timeline" aria-label=${t('timeline.title')}>
    ${short && html`<div class="row keep"><svg class="spans" viewBox=${`${view.from} 0 ${view.width} 24`} preserveAspectRatio="none" role="img" tabindex="0" onKeyDown=${keys} aria-label=${drawn.map((span) => `${span.text} ${duration(span.to - span.from)}`).slice(0, 20).join(', ')}>
      ${drawn.map((span) => { const x = ((span.from - begin) / whole) * 1000; const width = Math.max(2, ((span.to - span.from) / whole) * 1000); return html`<rect key=${`${span.seq}${span.kind}`} class=${`span ${span.kind}`} x=${x} width=${width} y=${span.kind === 'tool' ? 13 : 2} height=${span.kind === 'tool' ? 9 : 9} onClick=${() => choose(span.seq)}><title>${`${span.text} · ${duration(span.to - span.from)}`}</title></rect>`; })}
      ${tokens.points && html`<polyline class="tokens" points=${tokens.points}><title>${t('timeline.tokens', { n: number(tokens.most) })}</title></polyline>`}</svg>
      <button type="button" class="button s" onClick=${() => zoom(0.5)} aria-label=${t('timeline.in')} title=${t('timeline.in')}>+</button>
      <button type="button" class="button s" disabled=${view.width >= 1000} onClick=${() => zoom(2)} aria-label=${t('timeline.out')} title=${t('timeline.out')}>−</button>
      ${view.width < 1000 && html`<button type="button" class="button s" onClick=${() => pan(-0.25)} aria-label=${t('timeline.earlier')} title=${t('timeline.earlier')}>‹</button><button type="button" class="button s" onClick=${() => pan(0.25)} aria-label=${t('timeline.later')} title=${t('timeline.later')}>›</button>`}</div>
    <p class="row small quiet legend" data-testid="legend"><span>${time(view.from)} – ${time(view.from + view.width)}</span>${kinds.map(([kind, ms]) => html`<span class=${`key ${kind}`} key=${kind}>${t(`span.${kind}`)} ${duration(ms)}</span>`)}${tokens.most > 0 && html`<span class="key tokens">${t('timeline.tokens', { n: number(tokens.most) })}</span>`}</p>`}
    <div class="row scrub"><input type="range" min="1" max=${Math.max(1, full)} value=${value} aria-label=${t('timeline.scrub')} aria-valuetext=${t('timeline.seq', { n: value, of: full })} onInput=${(/** @type {any} */ event) => setMoved(Number(event.currentTarget.value))} />
      <span class="small nowrap">${t('timeline.seq', { n: number(value), of: number(full) })}</span>
      ${at !== null && html`<button type="button" class="button s" onClick=${() => setAt(null)}>${t('timeline.now')}</button>`}</div>
    ${at !== null && html`<p class="small note warn" role="status">${t('timeline.past', { n: at })}</p>`}
  </section>`;
}
