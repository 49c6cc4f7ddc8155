// The raw output of a run, a window at a time: from an event to its bytes, and from a line to its event.
import { html, useEffect, useMemo, useRef, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { number } from '../../lib/format.js';
import { Ansi, plain } from '../../lib/ansi.js';
import { linesOf, parts } from '../../lib/lines.js';
import { EVERY_MS } from '../../lib/writing.js';
import { Problem, Tabs, say } from '../basic.js';

const STEP = 64 * 1024;
const MOST = 256 * 1024;
/** Bytes that are read twice in a search, so that no line is cut. */
const OVERLAP = 4096;
/** Events looked at for both streams, and most bytes of one piece. */
const BOTH_EVENTS = 500;
const BOTH_PIECE = 16 * 1024;

/**
 * @typedef {{stream: string, from: number, to: number}} Mark
 * @param {{id: string, mark: Mark | null, stream: string, setStream: (stream: string) => void, log: import('../../lib/run-log.js').RunLog, choose: (seq: number) => void, growing?: boolean}} props
 */
export function Bytes({ id, mark, stream, setStream, log, choose, growing = false }) {
  const [loaded, setLoaded] = useState(/** @type {import('../../lib/lines.js').Window | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [search, setSearch] = useState('');
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const atEnd = useRef(true);
  const marked = mark && mark.stream === stream ? mark : null;
  // Between a change of the stream and its bytes nothing is shown: what was loaded is of the other stream.
  const shown = loaded?.stream === stream ? loaded : null;

  const seen = useRef(/** @type {number | undefined} */ (undefined));
  seen.current = shown?.to;

  const asked = useRef(0);
  /** Shows what the last question brings; an answer to an earlier one that comes late is dropped. @param {() => Promise<any>} question */
  const show = async (question) => {
    asked.current += 1;
    const mine = asked.current;
    try {
      const range = await question();
      if (mine !== asked.current) return;
      setLoaded(range.window);
      setError(null);
    } catch (refused) {
      if (mine === asked.current) setError(refused);
    }
  };
  const range = (/** @type {number} */ from, /** @type {number} */ to) => log.range(stream, from, to);
  const load = (/** @type {number} */ from, /** @type {number} */ to) => show(() => range(from, to));
  // An empty range tells the length.
  const loadEnd = () => show(() => range(0, 0).then(({ window: { total } }) => range(total - STEP, total)));

  useEffect(() => {
    setLoaded(null);
    if (!marked && stream !== 'both') loadEnd();
  }, [id, stream]);
  useEffect(() => {
    if (!marked) return;
    const inside = shown && marked.from >= shown.from && marked.to <= shown.to;
    if (!inside) load(marked.from - 4096, Math.min(marked.to, marked.from + MOST) + 16 * 1024);
  }, [id, stream, marked?.from, marked?.to]);
  useEffect(() => {
    showMark(place.current);
  }, [shown, marked?.from, marked?.to]);
  useEffect(() => {
    // New output is fetched while its end is looked at.
    let timer = 0;
    const listener = (/** @type {import('../../lib/run-log.js').Event[]} */ events) => {
      if (timer || marked || !atEnd.current || !events.some((event) => event.raw_ref?.stream === stream)) return;
      timer = setTimeout(() => { timer = 0; loadEnd(); }, 400);
    };
    const leave = log.listen(listener);
    return () => { leave(); clearTimeout(timer); };
  }, [log, stream, marked]);
  useEffect(() => {
    // Output that no event cites yet, such as the parts of a message, is there as well.
    if (!growing || marked || stream === 'both') return undefined;
    const timer = setInterval(() => {
      if (document.hidden || !atEnd.current) return;
      range(0, 0).then(({ window: { total } }) => { if (total > (seen.current ?? 0)) loadEnd(); }, () => {});
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [log, stream, growing, marked === null]);
  useEffect(() => {
    if (!marked && atEnd.current && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [shown]);

  const toEvent = async (/** @type {number} */ from, /** @type {number} */ to) => {
    try {
      const { events } = await range(from, to);
      if (events.length === 0) say(t('bytes.noevent'));
      else choose(events[0]);
    } catch (refused) {
      setError(refused);
    }
  };
  const selected = () => {
    const selection = getSelection();
    const line = (/** @type {Node | null | undefined} */ node) => (node instanceof Element ? node : node?.parentElement)?.closest('[data-from]');
    const [one, other] = [line(selection?.anchorNode), line(selection?.focusNode)];
    if (!one || !other || !place.current?.contains(one) || selection?.isCollapsed) return;
    const froms = [one, other].map((element) => Number(element.getAttribute('data-from')));
    const tos = [one, other].map((element) => Number(element.getAttribute('data-to')));
    toEvent(Math.min(...froms), Math.max(...tos));
  };
  const scrolled = () => {
    const list = place.current;
    if (list) atEnd.current = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
  };
  // What is loaded is looked through while somebody writes; the rest of the stream when it is asked for, from here to the end and then from the begin.
  const searchRest = async () => {
    if (!shown || search === '') return;
    const [{ from, to, total }, wanted, mine] = [shown, search.toLowerCase(), asked.current];
    try {
      for (const [begin, end] of [[to, total], [0, from]]) {
        for (let at = Math.max(0, begin - OVERLAP); at < end; at += MOST - OVERLAP) {
          const { window: next } = await range(at, Math.min(at + MOST, end + OVERLAP));
          // Somebody chose an event or another stream meanwhile.
          if (mine !== asked.current) return;
          if (!new TextDecoder().decode(next.bytes).toLowerCase().includes(wanted)) continue;
          atEnd.current = false;
          setLoaded(next);
          return;
        }
      }
      say(t('bytes.notfound'));
    } catch (refused) {
      setError(refused);
    }
  };
  const partial = shown && (shown.from > 0 || shown.to < shown.total);
  const tabs = [...['stdout', 'stderr'].map((name) => ({ id: name, name })), { id: 'both', name: t('bytes.both') }];
  if (stream === 'both') return html`<${Both} log=${log} tabs=${tabs} setStream=${setStream} choose=${choose} />`;
  return html`<section class="pane" aria-label=${t('bytes.title')}>
    <header><h2>${t('bytes.title')}</h2><${Tabs} label=${t('bytes.stream')} tabs=${tabs} chosen=${stream} choose=${setStream} /><span class="grow"></span>
      <${Find} search=${search} set=${setSearch} enter=${searchRest} /></header>
    <${Problem} error=${error?.code === 'FILE_NOT_FOUND' ? null : error} />
    <div class="inner raw" ref=${place} onScroll=${scrolled} onMouseUp=${selected} tabindex="0" role="group" aria-label=${stream}>
      ${shown && html`<${Lines} shown=${shown} marked=${marked} search=${search} toEvent=${toEvent} />`}
      ${shown && shown.total === 0 && html`<p class="empty">${t('bytes.none', { stream })}</p>`}
    </div>
    ${shown && shown.total > 0 && html`<footer class="row small quiet"><span class="grow" data-testid="bytes-range">${t('bytes.range', { from: number(shown.from), to: number(shown.to), total: number(shown.total) })}</span>
      ${search && partial && html`<button type="button" class="button s" onClick=${searchRest}>${t('bytes.next')}</button>`}
      ${shown.from > 0 && html`<button type="button" class="button s" onClick=${() => load(shown.from - STEP, Math.min(shown.to, shown.from - STEP + MOST))}>${t('bytes.earlier')}</button>`}
      ${shown.to < shown.total && html`<button type="button" class="button s" onClick=${() => load(Math.max(shown.from, shown.to + STEP - MOST), shown.to + STEP)}>${t('bytes.later')}</button>`}</footer>`}
  </section>`;
}

/** @param {{search: string, set: (text: string) => void, enter?: () => void}} props */
function Find({ search, set, enter }) {
  return html`<input class="input find" type="search" value=${search} onInput=${(/** @type {any} */ event) => set(event.currentTarget.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter') enter?.(); }} placeholder=${t('search')} aria-label=${t('bytes.search')} />`;
}

/**
 * The last pieces of both streams, in the order of the events that cite them.
 * @param {{log: import('../../lib/run-log.js').RunLog, tabs: any[], setStream: (stream: string) => void, choose: (seq: number) => void}} props
 */
function Both({ log, tabs, setStream, choose }) {
  const [search, setSearch] = useState('');
  const [pieces, setPieces] = useState(/** @type {{seq: number, stream: string, from: number, text: string}[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const head = log.head.value;
  useEffect(() => {
    let left = false;
    const timer = setTimeout(() => merged(log, head).then((found) => { if (!left) { setPieces(found); setError(null); } }, (refused) => { if (!left) setError(refused); }), 200);
    return () => { left = true; clearTimeout(timer); };
  }, [log, head]);
  useEffect(() => { if (place.current) place.current.scrollTop = place.current.scrollHeight; }, [pieces]);
  const seen = pieces.filter((piece) => piece.text.toLowerCase().includes(search.toLowerCase()));
  return html`<section class="pane" aria-label=${t('bytes.title')}><header><h2>${t('bytes.title')}</h2><${Tabs} label=${t('bytes.stream')} tabs=${tabs} chosen="both" choose=${setStream} /><span class="grow"></span><${Find} search=${search} set=${setSearch} /></header>
    <${Problem} error=${error} />
    <div class="inner raw" ref=${place} tabindex="0" role="group" aria-label=${t('bytes.streams')}>${seen.map((piece) => html`<div class=${`line ${piece.stream}`} key=${`${piece.stream}${piece.from}`}>
      <button type="button" class="at" onClick=${() => choose(piece.seq)} aria-label=${t('talk.toevent', { n: piece.seq })} title=${t('talk.toevent', { n: piece.seq })}>${piece.seq}</button><span class="stream">${piece.stream.slice(3)}</span><code><${Ansi} text=${piece.text} /></code></div>`)}${search && html`<p class="small quiet pad" role="status">${t('bytes.found', { n: seen.length })}</p>`}</div>
    <footer class="small quiet">${t('bytes.bothnote')}</footer></section>`;
}

/** @param {import('../../lib/run-log.js').RunLog} log @param {number} head */
async function merged(log, head) {
  if (head === 0) return [];
  const events = (await log.history(Math.max(1, head - BOTH_EVENTS + 1), head)).filter((event) => event.raw_ref && ['stdout', 'stderr'].includes(event.raw_ref.stream));
  /** @type {Record<string, import('../../lib/lines.js').Window>} */
  const windows = {};
  for (const stream of ['stdout', 'stderr']) {
    const refs = events.flatMap((event) => (event.raw_ref?.stream === stream ? [event.raw_ref] : []));
    if (refs.length === 0) continue;
    const to = Math.max(...refs.map((ref) => ref.byte_to));
    windows[stream] = (await log.range(stream, Math.max(to - MOST, Math.min(...refs.map((ref) => ref.byte_from))), to)).window;
  }
  const decoder = new TextDecoder();
  return events.flatMap((event) => {
    const ref = /** @type {NonNullable<typeof event.raw_ref>} */ (event.raw_ref);
    const shown = windows[ref.stream];
    if (ref.byte_from < shown.from) return [];
    const bytes = shown.bytes.subarray(ref.byte_from - shown.from, Math.min(ref.byte_to, ref.byte_from + BOTH_PIECE) - shown.from);
    return [{ seq: event.seq, stream: ref.stream, from: ref.byte_from, text: decoder.decode(bytes).replace(/\n$/, '') }];
  });
}

/** Scrolls the pane, and nothing else, to the marked bytes. @param {HTMLElement | null} pane */
export function showMark(pane) {
  const mark = pane?.querySelector('mark');
  if (!pane || !mark) return;
  pane.scrollTop += mark.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 3;
}

/** @param {{shown: import('../../lib/lines.js').Window, marked: Mark | null, search: string, toEvent: (from: number, to: number) => void}} props */
function Lines({ shown, marked, search, toEvent }) {
  const lines = useMemo(() => linesOf(shown), [shown]);
  const wanted = search.toLowerCase();
  const look = plain();
  let found = 0;
  const drawn = lines.map((line) => {
    const [before, lit, after] = parts(line, marked);
    if (wanted && !(before + lit + after).toLowerCase().includes(wanted)) return null;
    found += 1;
    return html`<div class="line" key=${line.from} data-from=${line.from} data-to=${line.to}>
      <button type="button" class="at" onClick=${() => toEvent(line.from, line.to)} aria-label=${t('bytes.toevent', { at: line.from })} title=${t('bytes.toevent', { at: line.from })}>${line.from}</button>
      <code><${Ansi} text=${before} look=${look} />${lit !== '' && html`<mark><${Ansi} text=${lit} look=${look} /></mark>`}<${Ansi} text=${after} look=${look} /></code></div>`;
  });
  return html`${drawn}${wanted && html`<p class="small quiet pad" role="status">${t('bytes.found', { n: found })}</p>`}`;
}
