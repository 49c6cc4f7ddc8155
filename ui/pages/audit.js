// An export that somebody brings: checked by the service, and played here like a live run.
import { html, useEffect, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { api } from '../lib/api.js';
import { bytes, number } from '../lib/format.js';
import { ExportLog } from '../lib/export-log.js';
import { Card, Problem } from '../components/basic.js';
import { DropZone } from '../components/drop-zone.js';
import { AuditReport } from '../components/audit-report.js';
import { Conversation } from '../components/run/conversation.js';
import { Events } from '../components/run/events.js';
import { Bytes } from '../components/run/bytes.js';

const SPEEDS = [1, 4, 16];

export function AuditPage() {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [report, setReport] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [log, setLog] = useState(/** @type {ExportLog | null} */ (null));
  const [unread, setUnread] = useState(false);
  const take = async (/** @type {File} */ taken) => {
    setFile(taken);
    setReport(null);
    setError(null);
    setLog(null);
    setUnread(false);
    const form = new FormData();
    form.append('file', taken, taken.name);
    api('/v1/management/audit', { form }).then(setReport, setError);
    ExportLog.open(taken).then(setLog, () => setUnread(true));
  };
  return html`<div class=${`page stack ${log ? 'wide-page' : ''}`}><h1>${t('nav.audit')}</h1><p class="quiet">${t('audit.intro')}</p>
    ${!file && html`<p class="small quiet">${t('audit.whence')} <code>skill-runner export ID -o run.zip</code></p>`}
    <${DropZone} label=${t('audit.drop')} accept=".zip,application/zip" take=${(/** @type {File[]} */ files) => take(files[0])} />
    ${file && html`<${Card} title=${`${file.name} · ${bytes(file.size)}`}><${Problem} error=${error} />
      ${report ? html`<${AuditReport} report=${report} />` : !error && html`<p class="quiet" role="status">${t('audit.checking')}</p>`}<//>`}
    ${unread && html`<p class="note warn">${t('audit.noreplay')}</p>`}
    ${log && html`<${Replay} key=${file?.name} log=${log} />`}</div>`;
}

/** @param {{log: ExportLog}} props */
function Replay({ log }) {
  const [seq, setSeq] = useState(/** @type {number | null} */ (null));
  const [filter, setFilter] = useState('');
  const [stream, setStream] = useState('stdout');
  useEffect(() => {
    log.start();
    return () => log.close();
  }, [log]);
  const choose = (/** @type {number} */ to) => {
    setSeq(to);
    const raw = log.get(to)?.raw_ref;
    if (raw) setStream(raw.stream);
  };
  const raw = seq === null ? undefined : log.get(seq)?.raw_ref;
  const mark = raw ? { stream: raw.stream, from: raw.byte_from, to: raw.byte_to } : null;
  const [head, full, speed] = [log.head.value, log.events.length, log.speed.value];
  return html`<section class="stack" aria-label=${t('audit.replay')}>
    <div class="row scrub"><button type="button" class="button s" onClick=${() => (speed ? log.pause() : log.play(SPEEDS[0]))}>${speed ? t('audit.pause') : t('audit.play')}</button>
      ${SPEEDS.slice(1).map((fast) => html`<button type="button" class="button s" key=${fast} aria-pressed=${speed === fast ? 'true' : 'false'} onClick=${() => log.play(fast)}>${fast}×</button>`)}
      <input type="range" min="1" max=${full} value=${head} aria-label=${t('timeline.scrub')} aria-valuetext=${t('timeline.seq', { n: head, of: full })} onInput=${(/** @type {any} */ event) => log.show(Number(event.currentTarget.value))} />
      <span class="small nowrap" data-testid="replay-at">${t('timeline.seq', { n: number(head), of: number(full) })}</span></div>
    <div class="panes"><${Conversation} log=${log} choose=${choose} />
      <${Events} log=${log} seq=${seq} choose=${choose} filter=${filter} setFilter=${setFilter} seeBytes=${() => {}} />
      <${Bytes} id="" mark=${mark} stream=${stream} setStream=${setStream} log=${log} choose=${choose} /></div></section>`;
}
