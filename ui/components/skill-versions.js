// The versions of a skill: what differs from the one in place, and the way back to one.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { api, useApi } from '../lib/api.js';
import { go, href } from '../lib/router.js';
import { shortId } from '../lib/format.js';
import { Card, Confirm, Loading, Problem, Time, say } from './basic.js';
import { Changes } from './diff.js';
import { Findings } from './schema-table.js';

/** What names a version: those that name none go by their content. @param {any} version */
function nameOf(version) {
  return version.version === '0.0.0' || version.version === null ? (version.fingerprint ?? '').slice(0, 12) : version.version;
}

/** @param {{id: string, reload: () => void}} props */
export function Versions({ id, reload }) {
  const { data, error, reload: again } = useApi(`/v1/skills/${encodeURIComponent(id)}/versions`);
  const [chosen, setChosen] = useState('');
  const [asking, setAsking] = useState('');
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  const act = async (/** @type {() => Promise<any>} */ what, /** @type {string} */ done) => {
    setRefused(null);
    try {
      await what();
      say(done);
    } catch (problem) {
      setRefused(problem);
    }
    again();
    reload();
  };
  const path = `/v1/skills/${encodeURIComponent(id)}`;
  const rollback = () => act(() => api(`${path}/rollback`, { json: { version: asking } }), t('versions.done', { version: asking }));
  const uninstall = () => act(async () => { await api(path, { method: 'DELETE' }); go(href(['skills'])); }, t('versions.uninstalled'));
  return html`<${Card} title=${t('versions.title')} tools=${html`<button type="button" class="button s risk" onClick=${() => setAsking('-')}>${t('versions.uninstall')}</button>`}>
    <${Problem} error=${error ?? refused} />${!data && !error && html`<${Loading} />`}
    <ul class="bare stack-s">${(data?.versions ?? []).map((/** @type {any} */ version) => { const name = nameOf(version); return html`<li key=${version.fingerprint ?? version.since}>
      <div class="row"><strong>${version.version ?? t('versions.broken')}</strong><span class="quiet small mono">${version.fingerprint && shortId(version.fingerprint)}</span><span class="quiet small"><${Time} iso=${version.since} /></span>
        ${version.current && html`<span class="tag good">${t('versions.current')}</span>`}<span class="grow"></span>
        ${!version.current && version.fingerprint && html`<button type="button" class="button s" aria-expanded=${chosen === name ? 'true' : 'false'} onClick=${() => setChosen(chosen === name ? '' : name)}>${t('versions.compare')}</button>
          <button type="button" class="button s" onClick=${() => setAsking(name)}>${t('versions.rollback')}</button>`}</div>
      ${version.findings.length > 0 && html`<${Findings} of=${version.findings} />`}
      ${chosen === name && !version.current && html`<${Compared} id=${id} from=${name} />`}</li>`; })}</ul>
    <${Confirm} title=${asking === '-' ? t('versions.uninstalltitle', { id }) : t('versions.rollbacktitle', { version: asking })} text=${t(asking === '-' ? 'versions.uninstalltext' : 'versions.rollbacktext')} action=${asking === '-' ? t('versions.uninstall') : t('versions.rollback')} open=${asking !== ''} close=${() => setAsking('')} act=${() => (asking === '-' ? uninstall() : rollback())} />
  <//>`;
}

/** @param {{id: string, from: string}} props */
function Compared({ id, from }) {
  const { data, error } = useApi(`/v1/management/skills/${encodeURIComponent(id)}/changes?from=${encodeURIComponent(from)}`);
  if (error) return html`<${Problem} error=${error} />`;
  return data ? html`<div class="stack-s"><p class="small quiet">${t('versions.since', { version: from })}</p><${Changes} of=${data.changes} /></div>` : html`<${Loading} />`;
}
