// One run: how it stands, why it failed, what it said, every event, every byte, and its result.
import { html, useEffect, useMemo, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { api, runPath, useApi } from '../lib/api.js';
import { go, href, place, withQuery } from '../lib/router.js';
import { duration, now, used } from '../lib/format.js';
import { RunLog } from '../lib/run-log.js';
import { Card, Confirm, Id, Loading, Problem, Status, Tabs, Time, say, useMedia } from '../components/basic.js';
import { FileField } from '../components/form-fields.js';
import { AuditBadge } from '../components/audit-report.js';
import { Bounds } from '../components/run/bounds.js';
import { Conversation } from '../components/run/conversation.js';
import { Events } from '../components/run/events.js';
import { Bytes, showMark } from '../components/run/bytes.js';
import { Failure } from '../components/run/failure.js';
import { Reply } from '../components/run/reply.js';
import { Result } from '../components/run/result.js';
import { Timeline } from '../components/run/timeline.js';
import { RunFiles } from '../components/run/files.js';

const FINAL = ['succeeded', 'failed', 'canceled'];
/** Events after which the job is not what it was. */
const MOVES = ['conversation.', 'user.input.required', 'interaction.', 'input.uploaded', 'run.'];

/** The log of a run, followed as long as the page is there. @param {string} id @param {number | null} at */
export function useLog(id, at) {
  const log = useMemo(() => new RunLog(id, at), [id, at]);
  useEffect(() => {
    // After the panes have begun to listen.
    log.start();
    return () => log.close();
  }, [log]);
  return log;
}

/** @param {{id: string}} props */
export function RunPage({ id }) {
  const { query } = place.value;
  const whole = (/** @type {string} */ name) => (/^[1-9]\d*$/.test(query.get(name) ?? '') ? Number(query.get(name)) : null);
  const at = whole('at');
  const job = useApi(`/v1/management/runs/${encodeURIComponent(id)}`, { every: 5000 });
  const past = useApi(at === null ? null : `/v1/management/runs/${encodeURIComponent(id)}?at_seq=${at}`);
  const log = useLog(id, at);
  useEffect(() => {
    let timer = 0;
    const listener = (/** @type {any[]} */ events) => {
      if (timer || !events.some((event) => MOVES.some((move) => event.type.startsWith(move) && event.type !== 'run.progress'))) return;
      timer = setTimeout(() => { timer = 0; job.reload(); }, 50);
    };
    const leave = log.listen(listener);
    return () => { leave(); clearTimeout(timer); };
  }, [log]);
  if (job.error?.code && !job.data) return html`<div class="page stack"><h1>${t('run.title')}</h1><${Problem} error=${job.error} retry=${job.reload} /></div>`;
  if (!job.data) return html`<div class="page"><h1 class="out">${t('run.title')}</h1><${Loading} /></div>`;
  const shown = at === null ? job.data : past.data ?? job.data;
  return html`<${Page} id=${id} job=${job.data} shown=${shown} log=${log} at=${at} seq=${whole('seq')} reload=${job.reload} problem=${past.error} />`;
}

/** @param {any} props */
function Page({ id, job, shown, log, at, seq, reload, problem }) {
  const { query } = place.value;
  const [mark, setMark] = useState(/** @type {any} */ (null));
  const [stream, setStream] = useState(query.get('stream') === 'stderr' ? 'stderr' : 'stdout');
  const small = useMedia('(max-width: 700px)');
  const tab = query.get('tab') ?? 'talk';
  const filter = query.get('type') ?? '';
  const final = FINAL.includes(shown.status);
  const choose = (/** @type {number} */ to, /** @type {any} */ bytes) => {
    setMark(bytes ? { ...bytes, seq: to } : null);
    if (bytes) setStream(bytes.stream);
    go(withQuery({ seq: to, tab: small ? (bytes ? 'bytes' : 'events') : null, ...(filter && log.types[to - 1] !== filter ? { type: null } : {}) }), { replace: seq !== null });
  };
  const raw = useEvent(log, seq)?.raw_ref;
  useEffect(() => { if (raw && (!mark || mark.seq !== seq)) setStream(raw.stream); }, [seq, raw?.stream]);
  const lit = mark && mark.seq === seq ? mark : raw ? { stream: raw.stream, from: raw.byte_from, to: raw.byte_to } : null;
  // What a question waits for is in the first event and in its own.
  const deadline = useDeadline(log, shown);
  const growing = at === null && job.status === 'running';
  const panes = {
    talk: html`<${Conversation} key=${`talk${at}`} log=${log} choose=${choose} writing=${growing && job.engine === 'gemini'} />`,
    events: html`<${Events} log=${log} seq=${seq} choose=${choose} filter=${filter} setFilter=${(/** @type {string} */ type) => go(withQuery({ type }), { replace: true })} seeBytes=${() => { if (small) go(withQuery({ tab: 'bytes' })); else showMark(document.querySelector('.raw')); }} />`,
    bytes: html`<${Bytes} id=${id} mark=${lit} stream=${stream} setStream=${(/** @type {string} */ name) => { setStream(name); setMark(null); }} log=${log} choose=${choose} growing=${growing} />`,
  };
  const names = [{ id: 'talk', name: t('talk.title') }, { id: 'events', name: t('events.title') }, { id: 'bytes', name: t('bytes.title') }];
  return html`<div class="page wide-page stack run">
    <${Head} id=${id} job=${job} shown=${shown} log=${log} at=${at} reload=${reload} choose=${choose} />
    <${Problem} error=${problem} />
    ${log.error.value?.code && html`<${Problem} error=${log.error.value} />`}
    ${shown.integrity && html`<div class="note bad">${t('run.damaged')} <code>${JSON.stringify(shown.integrity)}</code></div>`}
    ${at === null && (job.status === 'failed' || job.status === 'canceled') && html`<${Failure} id=${id} job=${job} choose=${choose} />`}
    ${at === null && job.awaiting_upload && !FINAL.includes(job.status) && html`<${Upload} id=${id} job=${job} reload=${reload} />`}
    ${at === null && job.status === 'succeeded' && html`<${Result} id=${id} choose=${choose} />`}
    <${Timeline} key=${at ?? 0} log=${log} full=${Math.max(job.head_seq, at === null ? log.head.value : 0)} at=${at} setAt=${(/** @type {number | null} */ to) => go(withQuery({ at: to, seq: null }))} choose=${choose} />
    ${small ? html`<${Tabs} label=${t('run.panes')} tabs=${names} chosen=${tab} choose=${(/** @type {string} */ to) => go(withQuery({ tab: to }), { replace: true })} /><div class="panes small-panes">${Object.entries(panes).map(([name, pane]) => html`<div key=${name} role="tabpanel" aria-label=${names.find((entry) => entry.id === name)?.name} hidden=${name !== tab}>${pane}</div>`)}</div>`
      : html`<div class="panes">${panes.talk}${panes.events}${panes.bytes}</div>`}
    ${at === null && final && html`<${RunFiles} id=${id} job=${job} />`}
    ${at === null && job.execution_mode === 'interactive' && !FINAL.includes(job.status) && html`<${Reply} id=${id} interaction=${job.pending_interaction_id} deadline=${deadline} done=${reload} />`}
  </div>`;
}

/** One event of the log, wherever it is. @param {RunLog} log @param {number | null} seq */
export function useEvent(log, seq) {
  const [event, setEvent] = useState(/** @type {import('../lib/run-log.js').Event | undefined} */ (undefined));
  useEffect(() => {
    let left = false;
    if (seq !== null) log.one(seq).then((found) => { if (!left) setEvent(found); }, () => {});
    return () => { left = true; };
  }, [log, seq]);
  return event?.seq === seq ? event : undefined;
}

/** When the open question is decided without an answer. @param {RunLog} log @param {any} job */
export function useDeadline(log, job) {
  const [deadline, setDeadline] = useState(/** @type {number | null} */ (null));
  useEffect(() => {
    setDeadline(null);
    if (job.pending_interaction_id === null) return;
    log.one(1).then((first) => {
      const options = first?.data.runtime_options;
      // The question stands directly before the change that the job was last updated by.
      if (options?.interactive_auto_reply) setDeadline(new Date(job.updated_at).getTime() + options.interactive_reply_timeout_sec * 1000);
    }, () => {});
  }, [log, job.pending_interaction_id]);
  return deadline;
}

/** @param {any} props */
function Head({ id, job, shown, log, at, reload, choose }) {
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const final = FINAL.includes(job.status);
  const act = async (/** @type {() => Promise<void>} */ what) => {
    setError(null);
    try {
      await what();
    } catch (refused) {
      setError(refused);
    }
  };
  const cancel = () => act(async () => { await api(runPath(id, '/cancel'), { json: {} }); say(t('run.canceling')); reload(); });
  const rerun = () => act(async () => { const next = await api(runPath(id, '/rerun'), { method: 'POST' }); go(href(['runs', next.request_id])); });
  const remove = () => act(async () => { await api(runPath(id), { method: 'DELETE' }); say(t('run.deleted')); go(href([])); });
  const created = new Date(job.created_at).getTime();
  // A run as it was had taken the time up to its last event then.
  const then = at === null ? undefined : log.get(at)?.ts ?? shown.updated_at;
  const end = then ?? (FINAL.includes(shown.status) ? shown.updated_at : null);
  const took = (end ? new Date(end).getTime() : now.value) - created;
  const line = [shown.engine, shown.model, shown.attempt > 1 ? t('run.attempt', { n: shown.attempt }) : null].filter(Boolean).join(' · ');
  return html`<div class="stack-s"><div class="row headline">
      <${Status} of=${shown.status} /><h1><a href=${href(['skills', job.skill_id])}>${job.skill_id || t('run.temporary')}</a> <span class="quiet small">${job.skill_version}</span></h1>
      <span class="quiet">${line}</span><${Id} id=${job.request_id} /><span class="grow"></span>
      <div class="row">${!final && html`<button type="button" class="button risk" onClick=${cancel}>${t('action.cancel')}</button>`}
      <button type="button" class="button" onClick=${rerun}>${t('action.rerun')}</button>
      ${job.skill_id && html`<a class="button" href=${href(['skills', job.skill_id, 'run'], { from: id })}>${t('action.changed')}</a>`}
      ${final && html`<a class="button" href=${runPath(id, '/bundle')} download>${t('action.bundle')}</a><a class="button" href=${runPath(id, '/export')} download>${t('action.export')}</a>
        <button type="button" class="button risk" onClick=${() => setAsking(true)}>${t('action.delete')}</button>`}</div>
    </div>
    <p class="row small quiet facts-line"><${Time} iso=${job.created_at} /><span>${duration(took)}</span>${used(shown.usage) && html`<span>${used(shown.usage)}</span>`}
      ${shown.queue_position !== null && shown.queue_position !== undefined && html`<span>${t('run.position', { n: shown.queue_position })}</span>`}
      ${job.cache_hit && html`<span class="tag">${t('run.cached')}</span>`}
      ${shown.recovery_state !== 'none' && html`<span class="tag warn">${t('run.recovered')}</span>`}
      ${Object.entries(job.labels ?? {}).map(([name, value]) => html`<a class="tag" key=${name} href=${href([], { label: `${name}:${value}` })}>${name}:${value}</a>`)}
      ${final && html`<${AuditBadge} id=${id} head=${job.head_seq} choose=${choose} />`}
      <span role="status" class=${`live is-${log.state.value}`}>${t(`live.${log.state.value}`)}</span></p>
    <${Bounds} id=${id} job=${shown} />
    <${Problem} error=${error} />
    <${Confirm} title=${t('run.deletetitle')} text=${t('run.deletetext')} action=${t('action.delete')} open=${asking} close=${() => setAsking(false)} act=${remove} />
  </div>`;
}

/** The files that a run waits for. @param {any} props */
export function Upload({ id, job, reload }) {
  const [files, setFiles] = useState(/** @type {Record<string, File[]>} */ ({}));
  const [error, setError] = useState(/** @type {any} */ (null));
  const names = job.awaiting_files.length ? job.awaiting_files : ['file'];
  const send = async () => {
    const form = new FormData();
    for (const [name, list] of Object.entries(files)) for (const file of list) form.append(name, file, file.name);
    try {
      await api(runPath(id, '/upload'), { form });
      reload();
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<${Card} title=${t('run.upload')}><div class="stack">${names.map((/** @type {string} */ name) => html`<${FileField} key=${name} name=${name} schema=${{}} required=${true} files=${files[name] ?? []} set=${(/** @type {File[]} */ list) => setFiles({ ...files, [name]: list })} errors=${{}} />`)}
    <${Problem} error=${error} /><div><button type="button" class="button main" disabled=${Object.values(files).flat().length === 0} onClick=${send}>${t('run.send')}</button></div></div><//>`;
}
