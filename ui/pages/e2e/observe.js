// A run as it goes: what it says, its events, its bytes, its questions; its result when it is over.
import { html, useEffect, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { api, runPath, useApi } from '../../lib/api.js';
import { go, href, place, withQuery } from '../../lib/router.js';
import { duration, now } from '../../lib/format.js';
import { Id, Loading, Problem, Status, Tabs, say, useMedia } from '../../components/basic.js';
import { Conversation } from '../../components/run/conversation.js';
import { Events } from '../../components/run/events.js';
import { Bytes, showMark } from '../../components/run/bytes.js';
import { Reply } from '../../components/run/reply.js';
import { Upload, useDeadline, useEvent, useLog } from '../run.js';

const FINAL = ['succeeded', 'failed', 'canceled'];

/** @param {{id: string}} props */
export function Observe({ id }) {
  const job = useApi(`/v1/management/runs/${encodeURIComponent(id)}`, { every: 2000 });
  const log = useLog(id, null);
  useEffect(() => log.listen(() => { job.reload(); }), [log]);
  if (job.error?.code && !job.data) return html`<div class="page stack"><h1>${t('run.title')}</h1><${Problem} error=${job.error} retry=${job.reload} /></div>`;
  if (!job.data) return html`<div class="page"><h1 class="out">${t('run.title')}</h1><${Loading} /></div>`;
  return html`<${Watched} id=${id} job=${job.data} log=${log} reload=${job.reload} />`;
}

/** @param {{id: string, job: any, log: import('../../lib/run-log.js').RunLog, reload: () => void}} props */
function Watched({ id, job, log, reload }) {
  const { query } = place.value;
  const [filter, setFilter] = useState('');
  const [stream, setStream] = useState('stdout');
  const [error, setError] = useState(/** @type {any} */ (null));
  const small = useMedia('(max-width: 700px)');
  const tab = query.get('tab') ?? 'talk';
  const seq = /^[1-9]\d*$/.test(query.get('seq') ?? '') ? Number(query.get('seq')) : null;
  const raw = useEvent(log, seq)?.raw_ref;
  const deadline = useDeadline(log, job);
  const final = FINAL.includes(job.status);
  const choose = (/** @type {number} */ to) => go(withQuery({ seq: to, tab: small ? 'events' : null }), { replace: seq !== null });
  useEffect(() => { if (raw) setStream(raw.stream); }, [raw?.stream, seq]);
  const cancel = () => api(runPath(id, '/cancel'), { json: {} }).then(() => { say(t('run.canceling')); reload(); }, setError);
  const took = (final ? new Date(job.updated_at).getTime() : now.value) - new Date(job.created_at).getTime();
  const panes = {
    talk: html`<${Conversation} log=${log} choose=${choose} writing=${job.status === 'running' && job.engine === 'gemini'} />`,
    events: html`<${Events} log=${log} seq=${seq} choose=${choose} filter=${filter} setFilter=${setFilter} seeBytes=${() => { if (small) go(withQuery({ tab: 'bytes' })); else showMark(document.querySelector('.raw')); }} />`,
    bytes: html`<${Bytes} id=${id} mark=${raw ? { stream: raw.stream, from: raw.byte_from, to: raw.byte_to } : null} stream=${stream} setStream=${setStream} log=${log} choose=${choose} growing=${job.status === 'running'} />`,
  };
  const names = [{ id: 'talk', name: t('talk.title') }, { id: 'events', name: t('events.title') }, { id: 'bytes', name: t('bytes.title') }];
  return html`<div class="page wide-page stack run">
    <div class="row headline"><${Status} of=${job.status} /><h1>${job.skill_id || t('run.temporary')} <span class="quiet small">${job.skill_version}</span></h1>
      <span class="quiet">${[job.engine, job.model, duration(took)].filter(Boolean).join(' · ')}</span><${Id} id=${job.request_id} />
      <span role="status" class=${`live is-${log.state.value}`}>${t(`live.${log.state.value}`)}</span><span class="grow"></span>
      <div class="row">${!final && html`<button type="button" class="button risk" onClick=${cancel}>${t('action.cancel')}</button>`}
        <a class="button" href=${href(['recordings', id])}>${t('e2e.torecording')}</a>
        ${final && html`<a class="button main" href=${href(['runs', id, 'result'])}>${t('e2e.toresult')}</a>`}</div></div>
    <${Problem} error=${error} />
    ${job.awaiting_upload && !final && job.awaiting_files.length > 0 && html`<${Upload} id=${id} job=${job} reload=${reload} />`}
    ${small ? html`<${Tabs} label=${t('run.panes')} tabs=${names} chosen=${tab} choose=${(/** @type {string} */ to) => go(withQuery({ tab: to }), { replace: true })} /><div class="panes small-panes">${Object.entries(panes).map(([name, pane]) => html`<div key=${name} role="tabpanel" aria-label=${names.find((entry) => entry.id === name)?.name} hidden=${name !== tab}>${pane}</div>`)}</div>`
      : html`<div class="panes">${panes.talk}${panes.events}${panes.bytes}</div>`}
    ${job.execution_mode === 'interactive' && !final && html`<${Reply} id=${id} interaction=${job.pending_interaction_id} deadline=${deadline} done=${reload} />`}
  </div>`;
}
