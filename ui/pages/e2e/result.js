// The result of a run, or why it has none, with its files.
import { html } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { runPath, useApi } from '../../lib/api.js';
import { go, href } from '../../lib/router.js';
import { Id, Loading, Problem, Status } from '../../components/basic.js';
import { Failure } from '../../components/run/failure.js';
import { Result } from '../../components/run/result.js';
import { RunFiles } from '../../components/run/files.js';
import { Json } from '../../components/source.js';

/** @param {{id: string}} props */
export function ResultPage({ id }) {
  const job = useApi(`/v1/management/runs/${encodeURIComponent(id)}`);
  const choose = (/** @type {number} */ seq) => go(href(['runs', id], { seq }));
  if (job.error) return html`<div class="page stack"><h1>${t('result.title')}</h1><${Problem} error=${job.error} retry=${job.reload} /></div>`;
  if (!job.data) return html`<div class="page"><h1 class="out">${t('result.title')}</h1><${Loading} /></div>`;
  const { data } = job;
  return html`<div class="page stack">
    <div class="row headline"><${Status} of=${data.status} /><h1>${t('e2e.resultof', { skill: data.skill_id || t('run.temporary') })}</h1><${Id} id=${data.request_id} /><span class="grow"></span>
      <div class="row"><a class="button" href=${href(['runs', id])}>${t('e2e.torun')}</a><a class="button" href=${href(['recordings', id])}>${t('e2e.torecording')}</a>
        ${data.skill_id && html`<a class="button" href=${href(['skills', data.skill_id, 'run'], { from: id })}>${t('action.changed')}</a>`}
        <a class="button" href=${runPath(id, '/bundle')} download>${t('action.bundle')}</a></div></div>
    ${data.status === 'succeeded' ? html`<${Result} id=${id} choose=${choose} />` : html`<${Failure} id=${id} job=${data} choose=${choose} /><${Answer} id=${id} />`}
    <${RunFiles} id=${id} job=${data} />
  </div>`;
}

/** The result of a run that failed, as the service answers it. @param {{id: string}} props */
function Answer({ id }) {
  const { data, error } = useApi(runPath(id, '/result'));
  return error ? html`<${Problem} error=${error} />` : data && html`<${Json} value=${data.result} label=${t('result.title')} />`;
}
