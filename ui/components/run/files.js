// The files in the folder of a run, with a preview of one, and why its result came from the cache or did not.
import { html, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { runPath, useApi } from '../../lib/api.js';
import { bytes } from '../../lib/format.js';
import { Preview } from './result.js';
import { Problem } from '../basic.js';

/** @param {{id: string, job: any}} props */
export function RunFiles({ id }) {
  const [open, setOpen] = useState('');
  const toggle = (/** @type {string} */ name) => (/** @type {any} */ event) => { if (event.currentTarget.open) setOpen(name); };
  return html`<div class="stack-s">
    <details class="card fold" onToggle=${toggle('files')}><summary><h2>${t('files.title')}</h2></summary>${open === 'files' && html`<${Files} id=${id} />`}</details>
    <details class="card fold" onToggle=${toggle('cache')}><summary><h2>${t('cache.title')}</h2></summary>${open === 'cache' && html`<${Cache} id=${id} />`}</details></div>`;
}

/** @param {{id: string}} props */
function Files({ id }) {
  const { data, error } = useApi(`/v1/management/runs/${encodeURIComponent(id)}/files`);
  const [seen, setSeen] = useState('');
  const files = (data?.files ?? []).filter((/** @type {any} */ entry) => entry.kind === 'file');
  return html`<div class="body"><${Problem} error=${error} />
    ${data && html`<ul class="bare mono">${files.slice(0, 500).map((/** @type {any} */ file) => html`<li key=${file.path}><div class="row"><button type="button" class="link any grow" aria-expanded=${seen === file.path ? 'true' : 'false'} onClick=${() => setSeen(seen === file.path ? '' : file.path)}>${file.path}</button><span class="quiet nowrap">${bytes(file.size)}</span></div>
      ${seen === file.path && html`<${Preview} id=${id} path=${file.path} markdown=${false} />`}</li>`)}</ul>`}</div>`;
}

/** @param {{id: string}} props */
function Cache({ id }) {
  const { data, error } = useApi(runPath(id, '/explain/cache'));
  return html`<div class="body stack-s"><${Problem} error=${error} />${data && html`<p><span class="tag">${data.outcome}</span> ${data.reason}</p>
    ${data.differing_parts?.length > 0 && html`<p class="small">${t('cache.differs', { parts: data.differing_parts.map((/** @type {any} */ part) => (typeof part === 'string' ? part : part.part ?? JSON.stringify(part))).join(', ') })}</p>`}`}</div>`;
}
