// The run as a conversation: messages, reasoning, tools, progress, questions and answers.
import { html, useEffect, useRef, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { extended, words } from '../../lib/conversation.js';
import { useWriting } from '../../lib/writing.js';
import { Markdown } from '../../lib/markdown.js';
import { Ansi } from '../../lib/ansi.js';
import { duration, used } from '../../lib/format.js';
import { Empty, Time } from '../basic.js';

const STEP = 1000;
/** Most things drawn at once; earlier ones are a click away. */
const DRAWN = 200;
/** Most characters of what a tool printed. */
const OUTPUT = 8000;

/** @param {{log: import('../../lib/run-log.js').RunLog, choose: (seq: number) => void, writing?: boolean}} props `writing`: the engine may be in the middle of a message */
export function Conversation({ log, choose, writing = false }) {
  const partial = useWriting(log, writing);
  const [items, setItems] = useState(/** @type {import('../../lib/conversation.js').Item[]} */ ([]));
  const [from, setFrom] = useState(1);
  const [drawn, setDrawn] = useState(DRAWN);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const atEnd = useRef(true);
  useEffect(() => {
    let begun = false;
    const listener = (/** @type {import('../../lib/run-log.js').Event[]} */ events) => {
      if (!begun && events.length) setFrom(events[0].seq);
      begun = true;
      setItems((old) => extended(old, events));
    };
    setItems([]);
    return log.listen(listener);
  }, [log]);
  const toEnd = () => {
    if (atEnd.current && place.current) place.current.scrollTop = place.current.scrollHeight;
  };
  useEffect(toEnd, [items, partial]);
  const earlier = async () => {
    atEnd.current = false;
    if (items.length > drawn) {
      setDrawn(drawn + DRAWN);
      return;
    }
    const begin = Math.max(1, from - STEP);
    const events = await log.history(begin, from - 1);
    setItems((old) => [...extended([], events), ...old]);
    setDrawn(drawn + DRAWN);
    setFrom(begin);
  };
  const scrolled = () => {
    const list = place.current;
    if (list) atEnd.current = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
  };
  const seen = items.slice(-drawn);
  return html`<section class="pane" aria-label=${t('talk.title')}>
    <header><h2>${t('talk.title')}</h2></header>
    <div class="inner talk" ref=${place} onScroll=${scrolled} onshown=${toEnd} tabindex="0" role="log" aria-live="polite" aria-label=${t('talk.title')}>
      ${(from > 1 || items.length > drawn) && html`<div class="pad"><button type="button" class="button s" onClick=${earlier}>${t('talk.earlier')}</button></div>`}
      ${seen.map((item, at) => html`<${Said} key=${item.key} item=${item} before=${seen[at - 1]} choose=${choose} />`)}
      ${partial && html`<article class="said message writing" aria-live="off"><div class="grow"><${Markdown} text=${words(partial)} /><p class="small quiet">${t('talk.writing')}</p></div></article>`}
      ${items.length === 0 && log.state.value !== 'loading' && html`<${Empty} title=${t('talk.none')} />`}
    </div></section>`;
}

/** @param {{item: import('../../lib/conversation.js').Item, before: any, choose: (seq: number) => void}} props */
function Said({ item, before, choose }) {
  const { kind, data } = item;
  const took = before ? new Date(item.ts).getTime() - new Date(before.ts).getTime() : null;
  const to = html`<button type="button" class="to" onClick=${() => choose(item.seq)} title=${t('talk.toevent', { n: item.seq })} aria-label=${t('talk.toevent', { n: item.seq })}>${item.seq}</button>`;
  const body = () => {
    switch (kind) {
      case 'message': return html`<${Markdown} text=${words(data.text)} />`;
      case 'reasoning': return html`<details><summary class="quiet">${t('talk.reasoning', { n: data.text.split('\n').length })}</summary><${Markdown} text=${data.text} /></details>`;
      case 'command': return html`<${Tool} head=${`$ ${data.command}`} ok=${data.exit_code === 0 || data.exit_code === null} result=${data.exit_code === null ? data.status : t('talk.exit', { n: data.exit_code })} took=${took} output=${data.output} />`;
      case 'tool': return html`<${Tool} head=${`${data.tool} ${JSON.stringify(data.input)}`} ok=${!['failed', 'error'].includes(data.status)} result=${data.status} took=${took} output=${data.output} />`;
      case 'progress': return html`<div class="row small"><span class="quiet">${Math.round(data.percent)}%</span><span class="grow any">${data.message}</span></div><div class="bar" role="progressbar" aria-label=${t('talk.progress')} aria-valuenow=${Math.round(data.percent)} aria-valuemin="0" aria-valuemax="100"><svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.min(100, Math.max(0, data.percent))} height="1" /></svg></div>`;
      case 'usage': return html`<p class="small quiet">${t('talk.usage')} ${used(data) || '–'}</p>`;
      case 'question': return html`<p class="who warn">◆ ${t('talk.asks')}</p><${Markdown} text=${data.prompt} />`;
      case 'answer': return html`<p class="who">${t('talk.answered')}</p><p class="any">${data.response_preview}</p>`;
      case 'auto': return html`<p class="who warn">${t('talk.auto', { s: data.timeout_sec })}</p><p class="any">${data.policy}</p>`;
      case 'warning': return html`<p class="who warn">${t('talk.warning')}</p><p class="any">${data.message}</p><p class="small quiet"><code>${data.code}</code></p>`;
      case 'recovered': return html`<p class="who warn">${t('talk.recovered')}</p><p class="any">${data.recovery_reason}</p>`;
      case 'retry': return html`<p class="who warn">${t('talk.retry', { n: data.retry, of: data.times, s: data.wait_seconds })}</p><p class="any">${data.error?.message}</p>`;
      case 'cancel': return html`<p class="who">${t('talk.cancel', { by: data.requested_by })}</p>`;
      case 'cache': return html`<p class="who">${t('talk.cache')}</p>`;
      case 'turn': return html`<p class="small quiet">${t('talk.turn', { n: data.attempt })} · ${data.isolation.tier ?? data.isolation} · <${Time} iso=${item.ts} /></p>`;
      default: return html`<p class=${`who ${data.status === 'succeeded' ? 'good' : 'bad'}`}>${t(`talk.${data.status}`)}</p>${data.error && html`<p class="any">${data.error.message}</p>`}`;
    }
  };
  return html`<article class=${`said ${kind}`}><div class="grow">${body()}</div>${to}</article>`;
}

/** @param {{head: string, ok: boolean, result: any, took: number | null, output: string}} props */
function Tool({ head, ok, result, took, output }) {
  const shown = (output ?? '').slice(0, OUTPUT);
  const line = html`<span class="row"><code class="grow any clamp">${head}</code><span class=${`small ${ok ? 'quiet' : 'bad-ink'}`}>${result}${took !== null && took > 20 ? ` · ${duration(took)}` : ''}</span></span>`;
  if (!shown) return line;
  return html`<details open=${!ok}><summary>${line}</summary><pre class="code"><${Ansi} text=${shown} />${output.length > OUTPUT ? `\n… ${t('events.cut')}` : ''}</pre></details>`;
}
