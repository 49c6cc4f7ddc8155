// The events of a run by number, with a filter by type and the content of the chosen one.
import { html, useEffect, useMemo, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { number } from '../../lib/format.js';
import { summary } from '../../lib/conversation.js';
import { VirtualList } from '../virtual-list.js';
import { Copy } from '../basic.js';
import { Source } from '../source.js';

/** Most characters of an event that are drawn. */
const SHOWN = 40_000;

/**
 * @param {{log: import('../../lib/run-log.js').RunLog, seq: number | null, choose: (seq: number) => void, filter: string, setFilter: (type: string) => void, seeBytes: () => void}} props
 */
export function Events({ log, seq, choose, filter, setFilter, seeBytes }) {
  const version = log.version.value;
  const head = log.head.value;
  useEffect(() => { if (filter) log.sweep().catch((error) => { log.error.value = error; }); }, [log, filter]);
  const types = useMemo(() => [...new Set(log.types.filter(Boolean))].sort(), [version]);
  const seqs = useMemo(() => {
    if (!filter) return null;
    const found = [];
    for (let at = 0; at < head; at += 1) if (log.types[at] === filter) found.push(at + 1);
    return found;
  }, [filter, version, head]);
  const count = seqs ? seqs.length : head;
  const seqAt = (/** @type {number} */ at) => (seqs ? seqs[at] : at + 1);
  const chosen = seq === null ? -1 : seqs ? seqs.indexOf(seq) : seq - 1;
  const first = log.get(1);
  const row = (/** @type {number} */ at) => {
    const event = log.get(seqAt(at));
    if (!event) return html`<span class="seq">${seqAt(at)}</span><span class="quiet">…</span>`;
    const since = first ? (new Date(event.ts).getTime() - new Date(first.ts).getTime()) / 1000 : null;
    return html`<span class="seq">${event.seq}</span><span class=${`etype ${tone(event.type)}`}>${event.type}</span><span class="cut grow quiet">${summary(event).slice(0, 300)}</span><span class="quiet since">${since === null ? '' : `${since.toFixed(since < 10 ? 2 : 0)} s`}</span>`;
  };
  return html`<section class="pane" aria-label=${t('events.title')}>
    <header><h2>${t('events.title')}</h2><span class="quiet small" data-testid="event-count">${seqs ? t('events.some', { n: number(count), of: number(head) }) : number(head)}</span><span class="grow"></span>
      <select class="select type" aria-label=${t('events.filter')} onChange=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)}>
        <option value="" selected=${!filter}>${t('events.all')}</option>
        ${(types.includes(filter) || !filter ? types : [filter, ...types]).map((type) => html`<option key=${type} value=${type} selected=${type === filter}>${type}</option>`)}</select></header>
    ${filter && log.swept.value < head && html`<p class="small quiet pad" role="status">${t('events.sweeping', { n: number(log.swept.value), of: number(head) })}</p>`}
    <${VirtualList} count=${count} label=${t('events.title')} chosen=${chosen} choose=${(/** @type {number} */ at) => choose(seqAt(at))} row=${row} idOf=${(/** @type {number} */ at) => `event-${seqAt(at)}`} stick=${true} />
    <${Detail} log=${log} seq=${seq} seeBytes=${seeBytes} />
  </section>`;
}

/** The colour of a type, by what it says. @param {string} type */
function tone(type) {
  if (type === 'conversation.failed') return 'bad';
  if (type === 'diagnostic.warning' || type === 'user.input.required') return 'warn';
  if (type === 'conversation.completed') return 'good';
  return '';
}

/** @param {{log: import('../../lib/run-log.js').RunLog, seq: number | null, seeBytes: () => void}} props */
function Detail({ log, seq, seeBytes }) {
  const [open, setOpen] = useState(true);
  const event = seq === null ? undefined : log.get(seq);
  if (!event) return null;
  const text = JSON.stringify(event.data, null, 2);
  const raw = event.raw_ref;
  return html`<div class="detail"><header class="row small"><button type="button" class="link" aria-expanded=${open ? 'true' : 'false'} onClick=${() => setOpen(!open)}>${open ? '▾' : '▸'} ${event.seq} ${event.type}</button><span class="grow"></span>
      ${raw && html`<button type="button" class="button s" onClick=${seeBytes}>${raw.stream} ${number(raw.byte_from)}–${number(raw.byte_to)}</button>`}<${Copy} text=${JSON.stringify(event)} label=${t('events.copy')} /></header>
    ${open && html`<pre tabindex="0" class="json" data-testid="event-data"><${Source} text=${text.length > SHOWN ? `${text.slice(0, SHOWN)}\n… ${t('events.cut')}` : text} language="json" /></pre>`}</div>`;
}
