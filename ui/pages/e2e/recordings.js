// What was recorded of runs: a list, and one of them played back step by step.
import { html, useLayoutEffect } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { useApi } from '../../lib/api.js';
import { go, href, place, withQuery } from '../../lib/router.js';
import { bytes, shortId } from '../../lib/format.js';
import { Card, Copy, Empty, Id, Loading, Problem, Time } from '../../components/basic.js';
import { Json } from '../../components/source.js';

export function Recordings() {
  const { data, error, reload } = useApi('/client/recordings', { every: 5000 });
  return html`<div class="page stack"><h1>${t('e2e.recordings')}</h1>
    <${Problem} error=${error} retry=${reload} />${!data && !error && html`<${Loading} />`}
    ${data?.trouble && html`<p class="note warn any" role="alert">${data.trouble}</p>`}
    ${data && html`<p class="quiet">${t('e2e.folder')} <code class="any">${data.folder}</code></p>`}
    ${data?.recordings.length === 0 && html`<${Empty} title=${t('e2e.norecordings')}><p><a href=${href([])}>${t('home.first')}</a></p><//>`}
    ${data?.recordings.length > 0 && html`<div class="card scroll-x"><table class="list"><thead><tr><th scope="col">${t('column.skill')}</th><th scope="col">${t('e2e.steps')}</th><th scope="col" class="wide">${t('e2e.service')}</th><th scope="col" class="num">${t('column.created')}</th></tr></thead>
      <tbody>${data.recordings.map((/** @type {any} */ one) => html`<tr key=${one.request_id}><td class="any"><a href=${href(['recordings', one.request_id])}>${one.skill_id ?? t(one.actions.includes('create') ? 'run.temporary' : 'e2e.elsewhere')}<span class="out"> ${one.request_id}</span></a> <span class="quiet small mono">${shortId(one.request_id)}</span></td>
        <td>${one.actions.map((/** @type {string} */ action, /** @type {number} */ at) => html`<span class="tag" key=${at}>${t(`recorded.${action}`)}</span> `)}</td><td class="wide small quiet any">${one.service}</td><td class="num"><${Time} iso=${one.began_at} /></td></tr>`)}</tbody></table></div>`}
  </div>`;
}

/** @param {{id: string}} props */
export function Playback({ id }) {
  const { data, error, reload } = useApi(`/client/recordings/${encodeURIComponent(id)}`);
  const count = data?.steps.length ?? 0;
  const asked = Number(place.value.query.get('step'));
  const at = Number.isInteger(asked) && asked >= 1 && asked <= count ? asked : 1;
  const to = (/** @type {number} */ step) => { if (step >= 1 && step <= count) go(withQuery({ step }), { replace: true }); };
  // Before the step is seen, so that no key is missed.
  useLayoutEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof HTMLElement && event.target.closest('pre, input, textarea, select, dialog'))) return;
      const step = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 1, End: count }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      to(step);
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, [at, count]);
  if (error) return html`<div class="page stack"><h1>${t('e2e.playback')}</h1>${error.status === 404 ? html`<${Empty} title=${t('e2e.norecording')}><p><a href=${href(['recordings'])}>${t('e2e.recordings')}</a></p><//>` : html`<${Problem} error=${error} retry=${reload} />`}</div>`;
  if (!data) return html`<div class="page"><h1 class="out">${t('e2e.playback')}</h1><${Loading} /></div>`;
  const step = data.steps[at - 1];
  return html`<div class="page stack">
    <div class="row"><div class="grow"><h1>${t('e2e.playback')}: ${data.skill_id ?? t(data.steps.some((/** @type {any} */ one) => one.action === 'create') ? 'run.temporary' : 'e2e.elsewhere')}</h1><p class="small quiet"><${Id} id=${data.request_id} /> ${data.service}</p></div>
      <a class="button" href=${href(['runs', data.request_id])}>${t('e2e.torun')}</a></div>
    <div class="row"><button type="button" class="button" disabled=${at <= 1} onClick=${() => to(1)}>${t('e2e.firststep')}</button><button type="button" class="button" disabled=${at <= 1} onClick=${() => to(at - 1)}>${t('e2e.previous')}</button>
      <button type="button" class="button main" disabled=${at >= count} onClick=${() => to(at + 1)}>${t('e2e.next')}</button>
      <span role="status" data-testid="step-at">${t('e2e.stepof', { n: at, of: count })}</span></div>
    <ol class="bare steps">${data.steps.map((/** @type {any} */ one, /** @type {number} */ place) => html`<li key=${place}><button type="button" class=${`button s ${place + 1 > at ? 'later' : ''}`} aria-current=${place + 1 === at ? 'step' : undefined} onClick=${() => to(place + 1)}>${place + 1}. ${t(`recorded.${one.action}`)}</button></li>`)}</ol>
    <${Card} title=${t(`recorded.${step.action}`)} tools=${html`<span class="quiet small"><${Time} iso=${step.at} /></span>`}><div class="stack">
      <div class="stack-s"><h3>${t('e2e.asked')}</h3><p class="mono any">${step.method} ${step.path}</p>
        ${step.files?.length > 0 && html`<ul class="bare stack-s">${step.files.map((/** @type {any} */ file, /** @type {number} */ place) => html`<li key=${place} class="any"><code>${file.field}</code> ${file.file_name ?? ''} <span class="quiet small">${bytes(file.bytes)} · sha256 ${shortId(file.sha256)}</span><${Copy} text=${file.sha256} /></li>`)}</ul>`}
        <${Body} of=${step.request} label=${t('e2e.asked')} /></div>
      <div class="stack-s"><h3>${t('e2e.answered')} <span class=${`tag ${step.status < 300 ? 'good' : 'bad'}`}>${step.status}</span></h3><${Body} of=${step.answer} label=${t('e2e.answered')} /></div></div><//>
  </div>`;
}

/** A body as far as it was recorded. @param {{of: any, label: string}} props */
function Body({ of, label }) {
  if (of.json !== undefined) return html`<${Json} value=${of.json} label=${label} />`;
  return of.bytes > 0 ? html`<p class="small quiet any">${t('e2e.leftout', { size: bytes(of.bytes) })} sha256 ${of.sha256}</p>` : null;
}
