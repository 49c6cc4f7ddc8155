// The result of a run: its data with the origin of every field, and its artifacts.
import { html, useEffect, useRef, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { api, runPath, useApi } from '../../lib/api.js';
import { bytes, number, shortId } from '../../lib/format.js';
import { Markdown } from '../../lib/markdown.js';
import { languageOf } from '../../lib/reading.js';
import { Card, Copy, Empty, FromIcon, Loading, Problem } from '../basic.js';
import { Source } from '../source.js';

/** How long the pointer rests on a field before its origin is asked for. */
const REST_MS = 200;
/** Most members of one object or list that are drawn. */
const MEMBERS = 200;

/** @param {{id: string, choose: (seq: number, mark?: any) => void}} props */
export function Result({ id, choose }) {
  const { data, error, reload } = useApi(runPath(id, '/result'));
  const [origin, setOrigin] = useState(/** @type {any} */ (null));
  const result = data?.result;
  const timer = useRef(0);
  const asked = useRef('');
  useEffect(() => () => clearTimeout(timer.current), []);
  const explained = async (/** @type {string} */ path) => {
    asked.current = path;
    const found = await api(runPath(id, `/explain?path=${encodeURIComponent(path)}`)).catch((error) => ({ path, error }));
    // The pointer may be elsewhere by now.
    if (asked.current === path) setOrigin(found);
    return found;
  };
  /** @type {Explain} */
  const explain = {
    rest: (path) => { clearTimeout(timer.current); timer.current = setTimeout(() => { if (origin?.path !== path) explained(path); }, REST_MS); },
    leave: () => clearTimeout(timer.current),
    go: async (path) => { clearTimeout(timer.current); show((await explained(path)).origin, choose); },
  };
  if (error) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!result) return html`<${Loading} />`;
  return html`<div class="two result">
    <${Card} title=${t('result.title')} tools=${html`<${Copy} text=${JSON.stringify(result.data, null, 2)} label=${t('result.copy')} />`} flush>
      <div class="body limited" tabindex="0" role="group" aria-label=${t('result.title')}>
        ${result.data === null ? html`<p class="quiet">${t('result.none')}</p>` : html`<div class="tree"><${Tree} value=${result.data} path="/data" explain=${explain} name="data" /></div>`}
        ${result.validation_warnings?.map((/** @type {any} */ warning, /** @type {number} */ at) => html`<p class="note warn" key=${at}>${warning.message} <code>${warning.code}</code></p>`)}</div>
      ${origin && html`<div class="origin fade" role="status"><${Origin} of=${origin} choose=${choose} close=${() => setOrigin(null)} /></div>`}
    <//>
    <${Artifacts} id=${id} artifacts=${result.artifacts} />
  </div>`;
}

/** Goes to the bytes that a field came from, or else to its event. @param {any} origin @param {(seq: number, mark?: any) => void} choose */
function show(origin, choose) {
  if (origin?.seq) choose(origin.seq, origin.kind === 'stream' ? { stream: origin.stream, from: origin.byte_from, to: origin.byte_to } : undefined);
}

/**
 * What a field tells of its origin: where it came from while the pointer rests on it, its bytes by a click.
 * @typedef {{rest: (path: string) => void, leave: () => void, go: (path: string) => void}} Explain
 * @param {{value: any, path: string, name: string, explain: Explain}} props @returns {any}
 */
function Tree({ value, path, name, explain }) {
  const from = html`<button type="button" class="from" title=${t('result.from')} aria-label=${t('result.fromfield', { path })} onMouseEnter=${() => explain.rest(path)} onMouseLeave=${explain.leave} onFocus=${() => explain.rest(path)} onBlur=${explain.leave} onClick=${() => explain.go(path)}><${FromIcon} /></button>`;
  const key = html`<span class="key">${name}</span>: `;
  if (value === null || typeof value !== 'object') return html`<ul><li>${key}<span class="any">${JSON.stringify(value)}</span>${from}</li></ul>`;
  const members = Object.entries(value);
  const simple = Array.isArray(value) && value.every((inner) => inner === null || typeof inner !== 'object') && JSON.stringify(value).length < 200;
  if (members.length === 0 || simple) return html`<ul><li>${key}<span class="any">${JSON.stringify(value).replaceAll(',', ', ')}</span>${from}</li></ul>`;
  return html`<ul><li>${key}${Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`}${from}
    ${members.slice(0, MEMBERS).map(([inner, held]) => html`<${Tree} key=${inner} value=${held} name=${inner} path=${`${path}/${inner.replaceAll('~', '~0').replaceAll('/', '~1')}`} explain=${explain} />`)}
    ${members.length > MEMBERS && html`<p class="quiet">… ${t('result.more', { n: members.length - MEMBERS })}</p>`}</li></ul>`;
}

/** @param {{of: any, choose: (seq: number, mark?: any) => void, close: () => void}} props */
function Origin({ of, choose, close }) {
  if (of.error) return html`<${Problem} error=${of.error} />`;
  const { origin, validation } = of;
  const stream = origin?.kind === 'stream';
  return html`<div class="row top"><div class="grow stack-s"><p><code>${of.path}</code> ${origin ? t(`origin.${origin.kind}`, { ...origin, n: origin.seq }) : t('origin.unknown')}</p>
      ${origin?.precision && origin.precision !== 'field' && html`<p class="small quiet">${t('origin.precision')}</p>`}
      ${validation && html`<p class="small quiet">${t('origin.steps', { steps: validation.steps.map((/** @type {any} */ step) => step.step).join(' → '), level: validation.level })}</p>`}
      ${origin?.seq && html`<p class="row"><button type="button" class="button s" onClick=${() => show(origin, choose)}>${stream ? `${origin.stream} ${number(origin.byte_from)}–${number(origin.byte_to)}` : t('why.event', { n: origin.seq })}</button></p>`}</div>
    <button type="button" class="copy" onClick=${close} aria-label=${t('action.close')}>✕</button></div>`;
}

/** @param {{id: string, artifacts: any[]}} props */
function Artifacts({ id, artifacts }) {
  const [seen, setSeen] = useState(/** @type {string | null} */ (null));
  return html`<${Card} title=${t('artifacts.title', { n: artifacts.length })} flush>
    ${artifacts.length === 0 ? html`<${Empty} title=${t('artifacts.none')} />` : html`<ul class="bare">${artifacts.map((artifact) => html`<li class="artifact" key=${artifact.path_rel}>
      <div class="row"><a href=${artifact.url} download class="any grow">${artifact.filename}</a><span class="small quiet nowrap">${bytes(artifact.size)}</span>
        <button type="button" class="button s" aria-expanded=${seen === artifact.path_rel ? 'true' : 'false'} onClick=${() => setSeen(seen === artifact.path_rel ? null : artifact.path_rel)}>${t('artifacts.preview')}</button></div>
      <p class="small quiet any">${artifact.role} · ${artifact.mime} · <span title=${artifact.sha256}>sha256 ${shortId(artifact.sha256)}</span><${Copy} text=${artifact.sha256} /></p>
      ${seen === artifact.path_rel && html`<${Preview} id=${id} path=${artifact.path_rel} markdown=${artifact.mime === 'text/markdown'} />`}</li>`)}</ul>`}<//>`;
}

/** A file of the run, as text; nothing is drawn as HTML. @param {{id: string, path: string, markdown: boolean}} props */
export function Preview({ id, path, markdown }) {
  const { data, error } = useApi(`/v1/management/runs/${encodeURIComponent(id)}/file?path=${encodeURIComponent(path)}`);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`<${Shown} data=${data} markdown=${markdown} />`;
}

/** A file as far as it can be shown; nothing is drawn as HTML. @param {{data: any, markdown?: boolean}} props */
export function Shown({ data, markdown = false }) {
  if (data.preview === 'image') return html`<img class="preview" src=${`data:${data.mime};base64,${data.content}`} alt=${data.path} />`;
  if (data.preview !== 'text') return html`<p class="quiet small">${t(`preview.${data.preview}`)}</p>`;
  return markdown ? html`<div class="preview"><${Markdown} text=${data.content} /></div>` : html`<pre class="code" tabindex="0" role="group" aria-label=${data.path}><${Source} text=${data.content} language=${languageOf(data.path)} /></pre>`;
}
