// The service itself: queue, disk, limits, store and what was found damaged.
import { html, useMemo, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { useApi } from '../lib/api.js';
import { bytes, duration, number } from '../lib/format.js';
import { href } from '../lib/router.js';
import { rate, series, useMetrics } from '../lib/metrics.js';
import { Card, Loading, Problem, Time } from '../components/basic.js';
import { BYTES, COUNTS, Chart } from '../components/chart.js';
import { RunTable } from './home.js';

/** Runs that are looked through for those that were recovered. */
const LOOKED_AT = 200;

/** A share as a bar. @param {{value: number, of: number, label: string}} props */
function Share({ value, of, label }) {
  return html`<div class="bar" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${of} aria-valuenow=${value}><svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width=${of ? Math.min(100, (value / of) * 100) : 0} height="1" /></svg></div>`;
}

/** What the service counts, over the last minutes. */
function Plots() {
  const samples = useMetrics();
  const per = (/** @type {number} */ value) => t('plot.persecond', { n: value < 10 ? value.toFixed(1) : number(Math.round(value)) });
  const whole = (/** @type {number} */ value) => number(Math.round(value));
  const times = useMemo(() => samples.map((sample) => sample.at / 1000), [samples]);
  // The part of the time that all plots show, or the whole.
  const [range, setRange] = useState(/** @type {[number, number] | null} */ (null));
  const [begin, end] = range ?? [times[0] ?? 0, times[times.length - 1] ?? 0];
  const part = (/** @type {number} */ by) => {
    const wide = (end - begin) * by;
    const to = Math.min(times[times.length - 1], (begin + end) / 2 + wide / 2);
    setRange(wide >= times[times.length - 1] - times[0] ? null : [Math.max(times[0], to - wide), to]);
  };
  const plots = useMemo(() => [
    ['plot.running', series(samples, 'skill_runner_slots_used'), whole, COUNTS],
    ['plot.queued', series(samples, 'skill_runner_queue_length'), whole, COUNTS],
    ['plot.created', rate(samples, 'skill_runner_runs_created_total'), per],
    ['plot.events', rate(samples, 'skill_runner_events_total'), per],
    ['plot.readers', series(samples, 'skill_runner_sse_readers'), whole, COUNTS],
    ['plot.memory', series(samples, 'process_resident_memory_bytes'), bytes, BYTES],
    ['plot.store', series(samples, 'skill_runner_store_bytes'), bytes, BYTES],
    ['plot.free', series(samples, 'skill_runner_disk_free_bytes'), bytes, BYTES],
  ], [samples]);
  const tools = html`<button type="button" class="button s" disabled=${end - begin < 4} onClick=${() => part(0.5)} aria-label=${t('plot.in')} title=${t('plot.in')}>+</button>
    <button type="button" class="button s" disabled=${range === null} onClick=${() => part(2)} aria-label=${t('plot.out')} title=${t('plot.out')}>−</button>
    <button type="button" class="button s" disabled=${range === null} onClick=${() => setRange(null)}>${t('plot.whole')}</button>`;
  return html`<${Card} title=${t('plot.title')} tools=${tools}><p class="small quiet">${t('plot.help')}</p><div class="plots gap">${plots.map(([key, values, shown, steps]) => html`<${Chart} key=${key} label=${t(/** @type {string} */ (key))} times=${times} values=${values} shown=${shown} steps=${steps} range=${range} zoom=${setRange} group="system" />`)}</div><//>`;
}

/** The runs that a start of the service found in motion. */
function Recovered() {
  const { data } = useApi(`/v1/management/runs?limit=${LOOKED_AT}`, { every: 10_000 });
  const runs = (data?.jobs ?? []).filter((/** @type {any} */ job) => job.recovery_state !== 'none');
  if (runs.length === 0) return null;
  return html`<${Card} title=${t('system.recovered', { n: runs.length })} flush><${RunTable} jobs=${runs} /><//>`;
}

/** Every setting in force. */
function Settings() {
  const [open, setOpen] = useState(false);
  return html`<details class="card fold" onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary><h2>${t('system.settings')}</h2></summary>${open && html`<${SettingsTable} />`}</details>`;
}

function SettingsTable() {
  const { data, error } = useApi('/v1/management/settings');
  const [wanted, setWanted] = useState('');
  if (error) return html`<div class="body"><${Problem} error=${error} /></div>`;
  if (!data) return html`<${Loading} />`;
  const rows = data.settings.filter((/** @type {any} */ row) => `${row.key} ${row.value} ${row.source} ${row.about}`.toLowerCase().includes(wanted.toLowerCase()));
  return html`<div class="body stack-s"><input class="input" type="search" value=${wanted} onInput=${(/** @type {any} */ event) => setWanted(event.currentTarget.value)} placeholder=${t('system.findsetting')} aria-label=${t('system.findsetting')} />
    <div class="scroll-x" tabindex="0" role="group" aria-label=${t('system.settings')}><table class="list"><thead><tr><th scope="col">${t('system.setting')}</th><th scope="col">${t('system.value')}</th><th scope="col">${t('system.source')}</th><th scope="col" class="wide">${t('schema.about')}</th></tr></thead>
      <tbody>${rows.map((/** @type {any} */ row) => html`<tr key=${row.key}><td class="mono"><span title=${row.variable}>${row.key}</span></td><td class="mono any">${row.value}</td><td class="small">${row.source}</td><td class="wide small quiet">${row.about}</td></tr>`)}</tbody></table></div></div>`;
}

export function System() {
  const { data, error, reload } = useApi('/v1/system', { every: 2000 });
  const ready = useApi('/readyz', { every: 4000 });
  if (!data) return html`<div class="page stack"><h1>${t('nav.system')}</h1>${error ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Loading} />`}</div>`;
  const { queue, limits, data_dir: disk, integrity, store } = data;
  const fact = (/** @type {string} */ name, /** @type {any} */ value) => html`<dt>${name}</dt><dd class="any">${value}</dd>`;
  return html`<div class="page stack"><h1>${t('nav.system')}</h1>
    <div class="grid four">
      <${Card} title=${t('system.service')} tools=${html`<span class=${`tag ${ready.error ? 'bad' : 'good'}`}>${ready.error ? t('system.notready') : t('system.ready')}</span>`}><dl class="facts">${fact(t('system.version'), data.version)}${fact(t('system.protocol'), data.protocol_version)}</dl>${ready.error?.message && html`<p class="note bad">${ready.error.message}</p>`}<//>
      <${Card} title=${t('system.queue')}><div class="stack-s">
        <div class="row"><a class="grow" href=${href([], { status: 'running' })}>${t('system.running')}</a><span>${number(queue.running)} / ${number(queue.max_running_jobs)}</span></div><${Share} value=${queue.running} of=${queue.max_running_jobs} label=${t('system.running')} />
        <div class="row"><a class="grow" href=${href([], { status: 'queued' })}>${t('system.queued')}</a><span>${number(queue.queued)} / ${number(queue.max_queued_jobs)}</span></div><${Share} value=${queue.queued} of=${queue.max_queued_jobs} label=${t('system.queued')} /></div><//>
      <${Card} title=${t('system.disk')}><dl class="facts">${fact(t('system.folder'), html`<code>${disk.path}</code>`)}${fact(t('system.free'), bytes(disk.free_bytes))}${fact(t('system.floor'), bytes(limits.min_free_bytes))}</dl><//>
      <${Card} title=${t('system.store')} tools=${html`<span class=${`tag ${store.trouble || integrity.damaged ? 'bad' : 'good'}`}>${store.trouble || integrity.damaged ? t('system.trouble') : t('system.whole')}</span>`}>
        <dl class="facts">${fact(t('system.damaged'), number(integrity.damaged))}${fact(t('system.checked'), number(integrity.scrub.runs_checked))}${fact(t('system.passes'), html`${number(integrity.scrub.passes)} <${Time} iso=${integrity.scrub.last_pass_ended_at} />`)}</dl>
        ${store.trouble && html`<p class="note bad any">${typeof store.trouble === 'string' ? store.trouble : JSON.stringify(store.trouble)}</p>`}
        ${integrity.damaged_runs.length > 0 && html`<ul>${integrity.damaged_runs.map((/** @type {any} */ run) => html`<li key=${JSON.stringify(run)} class="any mono">${typeof run === 'string' ? html`<a href=${href(['runs', run])}>${run}</a>` : JSON.stringify(run)}</li>`)}</ul>`}<//>
    </div><${Recovered} /><${Plots} />
    <${Card} title=${t('system.limits')}><dl class="facts-grid">${[...Object.entries(limits.run).map(([name, value]) => [`limits.${name}`, value]), ...Object.entries(limits).filter(([name]) => name !== 'run')].map(([name, value]) => html`<div key=${name}><dt class="mono small">${name}</dt><dd>${name.endsWith('bytes') ? bytes(value) : name.endsWith('seconds') ? duration(value * 1000) : number(value)}</dd></div>`)}</dl><//>
    <${Settings} /></div>`;
}
