// The box that answers a run's question: the right control for each kind, and a way to answer in other words.
import { html, useEffect, useId, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { api, runPath, useApi } from '../../lib/api.js';
import { clock, now } from '../../lib/format.js';
import { Markdown } from '../../lib/markdown.js';
import { Problem } from '../basic.js';

/** Stands below an interactive run until its end, and takes an answer while a question is open. @param {{id: string, interaction: number | null, deadline: number | null, done: () => void}} props */
export function Reply({ id, interaction, deadline, done }) {
  const { data, error, reload } = useApi(interaction === null ? null : runPath(id, '/interaction/pending'), { every: 5000 });
  // One question may follow another before the page has seen a time without.
  useEffect(reload, [interaction]);
  const pending = interaction === null ? null : data?.pending;
  if (!pending || pending.interaction_id !== interaction) {
    return html`<section class="reply closed" aria-label=${t('reply.title')}><${Problem} error=${error} />
      <div class="row keep"><input class="input grow" disabled placeholder=${t('reply.closed')} aria-label=${t('reply.closed')} /><button type="button" class="button main" disabled>${t('reply.send')}</button></div></section>`;
  }
  return html`<${Question} key=${pending.interaction_id} id=${id} pending=${pending} deadline=${deadline} done=${done} />`;
}

/** @param {{id: string, pending: any, deadline: number | null, done: () => void}} props */
function Question({ id, pending, deadline, done }) {
  const [answer, setAnswer] = useState(/** @type {any} */ (pending.kind === 'fill_fields' ? {} : pending.kind === 'open_text' ? '' : null));
  const [free, setFree] = useState('');
  const [error, setError] = useState(/** @type {any} */ (null));
  const [sending, setSending] = useState(false);
  const [key] = useState(() => crypto.randomUUID());
  const name = useId();
  const strict = pending.kind === 'risk_ack' || pending.ui_hints?.strict === true;
  const other = !strict && ['choose_one', 'confirm'].includes(pending.kind);
  const response = other && free !== '' ? free : answer;
  const ready = pending.kind === 'open_text' || response !== null;
  const send = async (/** @type {Event | null} */ event, /** @type {any} */ given = response) => {
    event?.preventDefault();
    setSending(true);
    setError(null);
    try {
      await api(runPath(id, '/interaction/reply'), { json: { interaction_id: pending.interaction_id, response: given, idempotency_key: key } });
      done();
    } catch (refused) {
      setError(refused);
      setSending(false);
    }
  };
  const keys = (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && ready) send(event); };
  useEffect(() => { document.title = `◆ ${document.title.replace(/^◆ /, '')}`; return () => { document.title = document.title.replace(/^◆ /, ''); }; }, []);
  return html`<section class="reply fade" aria-label=${t('reply.title')}><form onSubmit=${send} onKeyDown=${keys} class="stack-s">
    <div class="row top"><div class="grow prompt" id=${`${name}-prompt`}><${Markdown} text=${pending.prompt} /></div>
      ${deadline !== null && html`<span class="small quiet nowrap" title=${new Date(deadline).toISOString()}>${t('reply.until', { time: new Date(deadline).toLocaleTimeString(), left: clock(deadline - now.value) })}</span>`}</div>
    ${control()}
    ${deadline !== null && pending.default_decision_policy && html`<p class="small quiet">${t('reply.policy', { policy: pending.default_decision_policy })}</p>`}
    <${Problem} error=${error} />
    ${!['confirm', 'risk_ack'].includes(pending.kind) && html`<div class="row"><button type="submit" class="button main" disabled=${sending || !ready}>${t('reply.send')}</button><span class="small quiet"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span></div>`}
  </form></section>`;

  function control() {
    switch (pending.kind) {
      case 'choose_one': return html`<div role="radiogroup" aria-labelledby=${`${name}-prompt`} class="choices">
        ${pending.options.map((/** @type {any} */ option, /** @type {number} */ at) => html`<label class="check choice" key=${at}><input type="radio" name=${name} checked=${free === '' && answer === option.value} onChange=${() => { setAnswer(option.value); setFree(''); }} />${option.label}</label>`)}
        ${other && html`<label class="check choice grow"><span class="nowrap">${t('reply.other')}</span><input class="input" value=${free} onInput=${(/** @type {any} */ event) => setFree(event.currentTarget.value)} /></label>`}</div>`;
      case 'confirm': return html`<div class="row"><button type="button" class="button main" disabled=${sending} onClick=${() => send(null, true)}>${t('reply.yes')}</button><button type="button" class="button" disabled=${sending} onClick=${() => send(null, false)}>${t('reply.no')}</button>
        ${other && html`<input class="input grow" aria-label=${t('reply.other')} placeholder=${t('reply.other')} value=${free} onInput=${(/** @type {any} */ event) => setFree(event.currentTarget.value)} />${free && html`<button type="submit" class="button" disabled=${sending}>${t('reply.send')}</button>`}`}</div>`;
      case 'risk_ack': return html`<div class="note warn stack-s"><label class="check"><input type="checkbox" checked=${answer === true} onChange=${(/** @type {any} */ event) => setAnswer(event.currentTarget.checked ? true : null)} />${t('reply.risk')}</label>
        <div class="row"><button type="button" class="button main" disabled=${sending || answer !== true} onClick=${() => send(null, true)}>${t('reply.acknowledge')}</button><button type="button" class="button" disabled=${sending} onClick=${() => send(null, false)}>${t('reply.decline')}</button></div></div>`;
      case 'fill_fields': return html`<div class="pair">${pending.required_fields.map((/** @type {string} */ field) => html`<div class="field" key=${field}><label class="label" for=${`${name}-${field}`}>${field}</label><input id=${`${name}-${field}`} class="input" value=${answer[field] ?? ''} onInput=${(/** @type {any} */ event) => setAnswer({ ...answer, [field]: event.currentTarget.value })} /></div>`)}</div>`;
      default: return html`<textarea class="area text" rows="2" aria-labelledby=${`${name}-prompt`} value=${answer} onInput=${(/** @type {any} */ event) => setAnswer(event.currentTarget.value)}></textarea>`;
    }
  }
}
