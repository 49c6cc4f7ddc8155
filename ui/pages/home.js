// Home: what needs a person, then the runs, newest first.
import { html } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { useApi } from '../lib/api.js';
import { go, href, place, withQuery } from '../lib/router.js';
import { bytes, clock24, duration, number, used } from '../lib/format.js';
import { Bars } from '../components/bars.js';
import { Card, Empty, Loading, Problem, Status, Time } from '../components/basic.js';

const STATUSES = ['queued', 'running', 'waiting_user', 'succeeded', 'failed', 'canceled'];
const FILTERS = ['status', 'skill_id', 'engine', 'label', 'since', 'before'];
const LIMIT = 25;
const EVERY = 2500;

/** The hour, so that the address of a request stays the same for a while. */
function yesterday() {
  const hour = 3600_000;
  return new Date(Math.floor(Date.now() / hour) * hour - 24 * hour).toISOString();
}

/** @param {{job: any}} props */
function RunLine({ job }) {
  return html`<div class="row needline"><a href=${href(['runs', job.request_id])}>${job.skill_id || t('run.temporary')}</a>
    <span class="small cut grow">${job.error?.message ?? ''}</span><span class="quiet small"><${Time} iso=${job.updated_at} /></span></div>`;
}

function NeedsYou() {
  const waiting = useApi('/v1/management/runs?status=waiting_user&limit=5', { every: EVERY });
  const failed = useApi(`/v1/management/runs?status=failed&limit=5&since=${yesterday()}`, { every: EVERY * 2 });
  const system = useApi('/v1/system', { every: EVERY * 4 });
  const engines = useApi('/v1/management/engines', { every: 60_000 });
  const cards = [];
  const questions = waiting.data?.jobs ?? [];
  if (questions.length) {
    cards.push(html`<div class="need waiting" key="questions"><h2>◆ ${t('home.questions', { n: count(waiting.data) })}</h2>
      <ul class="bare">${questions.map((/** @type {any} */ job) => html`<li key=${job.run_id}><${RunLine} job=${job} /></li>`)}</ul></div>`);
  }
  const failures = failed.data?.jobs ?? [];
  if (failures.length) {
    cards.push(html`<div class="need failed" key="failures"><h2>✕ <a href=${href([], { status: 'failed' })}>${t('home.failures', { n: count(failed.data) })}</a></h2>
      <ul class="bare">${failures.slice(0, 3).map((/** @type {any} */ job) => html`<li key=${job.run_id}><${RunLine} job=${job} /></li>`)}</ul></div>`);
  }
  const broken = (engines.data?.engines ?? []).filter((/** @type {any} */ engine) => engine.installed && !engine.auth_ready);
  if (broken.length) {
    cards.push(html`<div class="need waiting" key="engines"><h2><a href=${href(['engines'])}>${t('home.engines', { n: broken.length })}</a></h2>
      <p class="small">${broken.map((/** @type {any} */ engine) => engine.engine).join(', ')}</p></div>`);
  }
  const disk = system.data?.data_dir;
  const floor = system.data?.limits?.min_free_bytes ?? 0;
  if (disk && disk.free_bytes < Math.max(floor * 4, 1 << 30)) {
    cards.push(html`<div class="need failed" key="disk"><h2><a href=${href(['system'])}>${t('home.disk', { free: bytes(disk.free_bytes) })}</a></h2></div>`);
  }
  if (system.data?.store?.trouble || system.data?.integrity?.damaged > 0) {
    cards.push(html`<div class="need failed" key="store"><h2><a href=${href(['system'])}>${t('home.damage', { n: system.data.integrity.damaged })}</a></h2></div>`);
  }
  if (!waiting.data && waiting.error) return html`<${Problem} error=${waiting.error} retry=${waiting.reload} />`;
  if (!waiting.data || !failed.data || !system.data) return html`<div class="needs hold" aria-hidden="true"></div>`;
  return html`<section aria-label=${t('home.needs')} class="needs fade">
    ${cards.length ? cards : html`<p class="calm"><span aria-hidden="true">●</span> ${t('home.nothing')}
      <span class="quiet">${t('home.load', { running: number(system.data.queue.running), queued: number(system.data.queue.queued) })}</span></p>`}
  </section>`;
}

/** The runs of the last day by the hour, and what they used. */
function LastDay() {
  const { data } = useApi(`/v1/management/runs?since=${yesterday()}&limit=500`, { every: EVERY * 6 });
  if (!data || data.jobs.length === 0) return null;
  const begin = new Date(yesterday()).getTime();
  const hour = 3600_000;
  const bars = Array.from({ length: 25 }, (_, place) => ({ whole: 0, failed: 0, from: begin + place * hour }));
  const usage = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };
  for (const job of data.jobs) {
    const bar = bars[Math.floor((new Date(job.created_at).getTime() - begin) / hour)];
    if (bar) { bar.whole += 1; if (job.status === 'failed') bar.failed += 1; }
    for (const name of /** @type {(keyof typeof usage)[]} */ (Object.keys(usage))) usage[name] += job.usage?.[name] ?? 0;
  }
  const counts = data.counts;
  return html`<section class="row lastday" aria-label=${t('home.lastday')}>
    <div class="grow"><${Bars} label=${t('home.bars', { runs: number(counts.total), failed: number(counts.by_status.failed) })} bars=${bars.map((bar) => ({ ...bar, name: t('home.bar', { time: clock24(bar.from), runs: bar.whole, failed: bar.failed }) }))} /></div>
    <p class="small quiet">${t('home.bars', { runs: number(counts.total), failed: number(counts.by_status.failed) })}${used(usage) && ` · ${used(usage)}`}${counts.total > data.jobs.length ? ` · ${t('home.newest', { n: data.jobs.length })}` : ''}</p></section>`;
}

/** How many there are, as far as one page tells. */
function count(/** @type {any} */ page) {
  return page.next_before && page.jobs.length === 5 ? `${page.jobs.length}+` : page.jobs.length;
}

function Filters() {
  const { query } = place.value;
  const skills = useApi('/v1/management/skills');
  const engines = useApi('/v1/management/engines');
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => go(withQuery({ [name]: event.currentTarget.value, before: null }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options) => html`<label class="filter"><span class="out">${label}</span>
    <select class="select" value=${query.get(name) ?? ''} onChange=${set(name)} aria-label=${label}>
      <option value="">${label}</option>${options.map(([value, text]) => html`<option key=${value} value=${value} selected=${query.get(name) === value}>${text}</option>`)}
    </select></label>`;
  const active = FILTERS.some((name) => query.get(name));
  return html`<form class="row filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()} role="search" aria-label=${t('home.filters')}>
    ${choice('status', t('filter.status'), STATUSES.map((status) => [status, t(`status.${status}`)]))}
    ${choice('skill_id', t('filter.skill'), (skills.data?.skills ?? []).map((/** @type {any} */ skill) => [skill.id, skill.id]))}
    ${choice('engine', t('filter.engine'), (engines.data?.engines ?? []).map((/** @type {any} */ engine) => [engine.engine, engine.engine]))}
    <input class="input label" data-search type="text" placeholder=${t('filter.label')} aria-label=${t('filter.label')} value=${query.get('label') ?? ''} onChange=${set('label')} />
    ${active && html`<a href=${href([])}>${t('filter.clear')}</a>`}
  </form>`;
}

/** @param {{jobs: any[]}} props */
export function RunTable({ jobs }) {
  return html`<div class="scroll-x"><table class="list runs"><thead><tr>
      <th scope="col">${t('column.status')}</th><th scope="col">${t('column.skill')}</th><th scope="col" class="wide">${t('column.engine')}</th>
      <th scope="col" class="wide num">${t('column.duration')}</th><th scope="col" class="wide num">${t('column.usage')}</th><th scope="col" class="num">${t('column.created')}</th></tr></thead>
    <tbody>${jobs.map((job) => html`<tr key=${job.run_id} class="fade">
      <td><${Status} of=${job.status} /></td>
      <td class="any"><a href=${href(['runs', job.request_id])}>${job.skill_id || t('run.temporary')}<span class="out"> ${job.request_id}</span></a>
        <span class="quiet small"> ${job.skill_version}</span> ${job.cache_hit && html`<span class="tag">${t('run.cached')}</span>`}
        ${job.awaiting_upload && html` <span class="tag warn">${t('run.awaiting')}</span>`}
        ${Object.entries(job.labels ?? {}).map(([name, value]) => html` <a class="tag" key=${name} href=${href([], { label: `${name}:${value}` })}>${name}:${value}</a>`)}
        ${job.error && html`<p class="small quiet clamp">${job.error.message}</p>`}</td>
      <td class="wide">${job.engine}${job.model && html`<span class="quiet small"> ${job.model}</span>`}</td>
      <td class="wide num nowrap">${['succeeded', 'failed', 'canceled'].includes(job.status) ? duration(new Date(job.updated_at).getTime() - new Date(job.created_at).getTime()) : ''}</td>
      <td class="wide num nowrap">${used(job.usage)}</td>
      <td class="num"><${Time} iso=${job.created_at} /></td></tr>`)}</tbody></table></div>`;
}

function Runs() {
  const { query } = place.value;
  const asked = new URLSearchParams();
  for (const name of FILTERS) {
    const value = query.get(name);
    if (value) asked.set(name, value);
  }
  asked.set('limit', String(LIMIT));
  const runs = useApi(`/v1/management/runs?${asked}`, { every: EVERY });
  const jobs = runs.data?.jobs;
  const filtered = FILTERS.some((name) => query.get(name));
  return html`<${Card} title=${t('home.all')} flush tools=${html`<${Filters} />`}>
    ${runs.error?.code && html`<div class="body"><${Problem} error=${runs.error} /></div>`}
    ${!jobs && !runs.error && html`<${Loading} />`}
    ${jobs && jobs.length === 0 && html`<${Empty} title=${filtered ? t('home.nomatch') : t('home.noruns')}><p><a href=${filtered ? href([]) : href(['skills'])}>${filtered ? t('filter.clear') : t('home.first')}</a></p><//>`}
    ${jobs && jobs.length > 0 && html`<${RunTable} jobs=${jobs} />`}
    ${jobs && (query.get('before') || runs.data.next_before) && html`<footer class="row paging">
      ${query.get('before') && html`<a class="button s" href=${withQuery({ before: null })}>${t('paging.newest')}</a>`}<span class="grow"></span>
      ${runs.data.next_before && html`<a class="button s" href=${withQuery({ before: runs.data.next_before })}>${t('paging.older')}</a>`}</footer>`}
  <//>`;
}

export function Home() {
  return html`<div class="page stack"><h1>${t('nav.home')}</h1><${NeedsYou} /><${LastDay} /><${Runs} /></div>`;
}
