// What an audit of a run found, and the badge that says so on the page of a run.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { runPath, useApi } from '../lib/api.js';
import { number, shortId } from '../lib/format.js';
import { Copy, Problem } from './basic.js';

/** Longer logs are audited when somebody asks for it. */
const AT_ONCE = 20_000;

/** @param {{report: any, choose?: (seq: number) => void}} props */
export function AuditReport({ report, choose }) {
  return html`<div class="stack-s">
    <p><span class=${`tag ${report.ok ? 'good' : 'bad'}`}>${report.ok ? `✓ ${t('audit.ok')}` : `✕ ${t('audit.violations', { n: report.violations.length })}`}</span> ${t('audit.events', { n: number(report.events) })}</p>
    <p class="small">${t(`audit.${report.trust}`)} ${report.signed_by && html`<span class="mono" title=${report.signed_by}>${shortId(report.signed_by)}</span><${Copy} text=${report.signed_by} />`} ${report.signed_on && html`<span class="any">(${report.signed_on.name})</span>`}</p>
    ${report.violations.length > 0 && html`<ul class="bare stack-s">${report.violations.slice(0, 200).map((/** @type {any} */ found, /** @type {number} */ at) => html`<li key=${at} class="note bad">
      <p class="any"><strong>${found.rule}</strong> <code>${found.file}</code> ${found.message}</p>
      <p class="small quiet">${found.seq !== null && (choose ? html`<button type="button" class="link" onClick=${() => choose(found.seq)}>${t('why.event', { n: found.seq })}</button>` : t('why.event', { n: found.seq }))} ${found.byte !== null && t('audit.byte', { n: number(found.byte) })}</p></li>`)}</ul>`}
    <p class="small quiet">${t('audit.checked', { what: report.checked.join(', ') })}</p>
    ${report.not_checked.map((/** @type {string} */ what) => html`<p class="small quiet" key=${what}>${t('audit.notchecked', { what })}</p>`)}
  </div>`;
}

/** Whether everything of a finished run is what it was. @param {{id: string, head: number, choose: (seq: number) => void}} props */
export function AuditBadge({ id, head, choose }) {
  const [asked, setAsked] = useState(head <= AT_ONCE);
  const { data: report, error, reload } = useApi(asked ? runPath(id, '/audit') : null);
  if (!asked) return html`<button type="button" class="button s" onClick=${() => setAsked(true)}>${t('audit.check')}</button>`;
  if (error) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!report) return html`<span class="tag" role="status">${t('audit.checking')}</span>`;
  return html`<details class="badge"><summary><span class=${`tag ${report.ok ? 'good' : 'bad'}`}>${report.ok ? `✓ ${t('audit.ok')}` : `✕ ${report.violations[0].file}: ${report.violations[0].message}`}</span></summary>
    <div class="card pop"><div class="body"><${AuditReport} report=${report} choose=${choose} /></div></div></details>`;
}
