// What differs between two packages: the files, and their lines.
import { html } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { Findings } from './schema-table.js';

/** @type {Record<string, string>} */
const MARKS = { added: '+', removed: '−', changed: '~' };

/** @param {{of: any[], findings?: any[]}} props findings stand beside the file they are about */
export function Changes({ of, findings = [] }) {
  const about = (/** @type {any} */ change) => findings.filter((finding) => finding.file === change.path);
  if (of.length === 0) return html`<p class="quiet">${t('changes.none')}</p>`;
  return html`<ul class="bare stack-s">${of.map((change) => html`<li key=${change.path}><details open=${of.length <= 5 || about(change).length > 0}>
    <summary><span class=${`tag ${change.change === 'added' ? 'good' : change.change === 'removed' ? 'bad' : 'warn'}`}>${MARKS[change.change]} ${t(`changes.${change.change}`)}</span> <code class="any">${change.path}</code></summary>
    ${about(change).length > 0 && html`<${Findings} of=${about(change)} />`}
    ${change.diff === null ? html`<p class="small quiet">${t('changes.notshown')}</p>` : html`<pre class="code diff" tabindex="0" role="group" aria-label=${change.path}>${change.diff.split('\n').map((/** @type {string} */ line, /** @type {number} */ at) => html`<span key=${at} class=${kind(line)}>${`${line}\n`}</span>`)}</pre>`}</details></li>`)}</ul>`;
}

/** @param {string} line */
function kind(line) {
  if (line.startsWith('@@')) return 'place';
  if (line.startsWith('+')) return 'plus';
  return line.startsWith('-') ? 'minus' : '';
}
