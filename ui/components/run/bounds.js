// What a run is held by: its sandbox, its limits, its place among other runs.
import { html, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { api, runPath } from '../../lib/api.js';
import { bytes, duration, number } from '../../lib/format.js';
import { Problem } from '../basic.js';

/** A turn begins among the first events. */
const FIRST = 50;

/** @param {string} name @param {number} value */
function limit(name, value) {
  if (name.endsWith('bytes')) return bytes(value);
  return name.endsWith('seconds') ? duration(value * 1000) : number(value);
}

/** @param {{id: string, job: any}} props */
export function Bounds({ id, job }) {
  const [limits, setLimits] = useState(/** @type {Record<string, number> | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const told = job.isolation;
  if (!told) return null;
  const tier = told.tier ?? told;
  const known = Boolean(told.tier);
  const asked = job.warnings.filter((/** @type {any} */ warning) => warning.code === 'ISOLATION_NOT_ENFORCED');
  const load = (/** @type {Event} */ event) => {
    if (!(/** @type {HTMLDetailsElement} */ (event.currentTarget).open) || limits) return;
    api(runPath(id, `/events/history?from_seq=1&limit=${FIRST}`)).then((answer) => setLimits(answer.events.find((/** @type {any} */ one) => one.type === 'turn.started')?.data.limits ?? {}), setError);
  };
  const fact = (/** @type {string} */ name, /** @type {any} */ value) => html`<dt>${name}</dt><dd class="any">${value}</dd>`;
  return html`<details class="small bounds" onToggle=${load}>
    <summary class="quiet">${t('bounds.title')}: ${known ? t(`tier.${tier}`) : tier}${job.priority ? ` · ${t('bounds.priority')} ${job.priority}` : ''}${asked.length > 0 && html` <span class="tag warn">${t('bounds.notenforced')}</span>`}</summary>
    <dl class="facts">
      ${known && fact(t('bounds.files'), t(`scope.${told.files}`))}
      ${known && fact(t('bounds.network'), t(`reach.${told.network}`))}
      ${known && fact(t('bounds.parts'), told.parts.join(', '))}
      ${fact(t('bounds.priority'), job.priority ?? 0)}
      ${Object.entries(limits ?? {}).map(([name, value]) => fact(t(`limit.${name}`), limit(name, value)))}
      ${asked.map((/** @type {any} */ warning) => fact(t('bounds.notenforced'), warning.message))}
    </dl><${Problem} error=${error} /></details>`;
}
