// The agent CLIs: versions, log-in with what to do, models, installation with its log.
import { html, useId, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { api, useApi } from '../lib/api.js';
import { Card, Code, Confirm, Loading, Problem, say } from '../components/basic.js';

/** Names the models of a version of the CLI that its catalog does not have yet. @param {{name: string, version: string, done: () => void}} props */
function Snapshot({ name, version, done }) {
  const [about, setAbout] = useState({ version, models: '' });
  const [error, setError] = useState(/** @type {any} */ (null));
  const id = useId();
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setError(null);
    const models = about.models.split(/[\s,]+/).filter(Boolean).map((model) => ({ id: model }));
    try {
      await api(`/v1/engines/${encodeURIComponent(name)}/models/snapshots`, { json: { cli_version: about.version, models } });
      say(t('engine.added', { n: models.length }));
      done();
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<details><summary>${t('engine.addsnapshot')}</summary><form class="stack-s gap" onSubmit=${send}>
    <div class="field"><label class="label" for=${`${id}-version`}>${t('engine.cliversion')}</label><input class="input" id=${`${id}-version`} value=${about.version} onInput=${(/** @type {any} */ event) => setAbout({ ...about, version: event.currentTarget.value })} /></div>
    <div class="field"><label class="label" for=${`${id}-models`}>${t('engine.modelids')}</label><textarea class="area" id=${`${id}-models`} rows="3" value=${about.models} onInput=${(/** @type {any} */ event) => setAbout({ ...about, models: event.currentTarget.value })}></textarea></div>
    <${Problem} error=${error} /><div><button type="submit" class="button s" disabled=${!about.version.trim() || !about.models.trim()}>${t('engine.add')}</button></div></form></details>`;
}

/** @param {{name: string, version: string}} props */
function Models({ name, version }) {
  const { data, error, reload } = useApi(`/v1/engines/${encodeURIComponent(name)}/models`);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`<div class="stack-s gap"><p class="small quiet">${t('engine.snapshot', { version: data.snapshot_version ?? '–' })} ${data.fallback_reason ?? ''}</p>
    <div class="scroll-x limited" tabindex="0" role="group" aria-label=${t('engine.models', { n: data.models.length })}><table class="list"><thead><tr><th scope="col">${t('engine.model')}</th><th scope="col">${t('engine.modelname')}</th></tr></thead><tbody>${data.models.map((/** @type {any} */ model) => html`<tr key=${model.id}><td class="mono">${model.id}</td><td>${model.display_name ?? ''} ${model.deprecated && html`<span class="tag warn">${t('engine.deprecated')}</span>`}</td></tr>`)}</tbody></table></div>
    <${Snapshot} name=${name} version=${version} done=${reload} /></div>`;
}

/** @param {{id: string, done: () => void}} props */
function Upgrade({ id, done }) {
  const { data, error } = useApi(`/v1/engines/upgrades/${encodeURIComponent(id)}`, { every: 1500 });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return null;
  const over = !['queued', 'running'].includes(data.status);
  return html`<div class="stack-s gap" role="status"><p><span class=${`tag ${data.status === 'succeeded' ? 'good' : data.status === 'failed' ? 'bad' : ''}`}>${data.status}</span> ${over && html`<button type="button" class="link" onClick=${done}>${t('action.close')}</button>`}</p>
    ${Object.entries(data.results).map(([name, result]) => html`<p key=${name} class="small any">${/** @type {any} */ (result).package}: ${/** @type {any} */ (result).message ?? /** @type {any} */ (result).status}</p>`)}
    ${data.log_tail && html`<${Code} label=${t('engine.log')} text=${data.log_tail} />`}</div>`;
}

/** @param {{engine: any, reload: () => void}} props */
function Engine({ engine, reload }) {
  const [open, setOpen] = useState(false);
  const [asking, setAsking] = useState(false);
  const [upgrade, setUpgrade] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const install = async () => {
    setError(null);
    try {
      const begun = await api('/v1/engines/upgrades', { json: { mode: 'single', engine: engine.engine } });
      setUpgrade(begun.upgrade_id);
    } catch (refused) {
      setError(refused);
    }
  };
  const built = engine.state === 'built_in';
  const tag = built || (engine.installed && engine.auth_ready) ? ['good', t('engine.ready')] : engine.installed ? ['warn', t('engine.login')] : ['', t('engine.missing')];
  return html`<${Card} title=${engine.engine} tools=${html`<span class=${`tag ${tag[0]}`}>${tag[1]}</span>`}>
    <dl class="facts">
      <dt>${t('engine.version')}</dt><dd>${engine.cli_version ?? '–'} ${engine.pinned_version && html`<span class="quiet small">${t('engine.pinned', { version: engine.pinned_version })}</span>`}</dd>
      ${engine.state === 'sunset' && html`<dt>${t('engine.state')}</dt><dd><span class="tag warn">${t('engine.sunset')}</span></dd>`}
      ${engine.program && html`<dt>${t('engine.program')}</dt><dd class="mono any">${engine.program}</dd>`}
      ${!built && html`<dt>${t('engine.auth')}</dt><dd class="any">${engine.auth_detail}</dd>`}
      ${engine.problem && html`<dt>${t('engine.problem')}</dt><dd class="any">${engine.problem}</dd>`}</dl>
    <div class="row gap">${!built && html`<button type="button" class="button s" aria-expanded=${open ? 'true' : 'false'} onClick=${() => setOpen(!open)}>${t('engine.models', { n: engine.models_count })}</button>`}
      ${engine.pinned_version && html`<button type="button" class="button s" onClick=${() => setAsking(true)}>${engine.installed ? t('engine.upgrade') : t('engine.install')}</button>`}</div>
    ${open && html`<${Models} name=${engine.engine} version=${engine.cli_version ?? ''} />`}
    <${Problem} error=${error} />
    ${upgrade && html`<${Upgrade} id=${upgrade} done=${() => { setUpgrade(null); reload(); }} />`}
    <${Confirm} title=${t('engine.installtitle', { engine: engine.engine })} text=${t('engine.installtext', { command: `skill-runner engines --install ${engine.engine}` })} action=${t('engine.install')} open=${asking} close=${() => setAsking(false)} act=${install} />
  <//>`;
}

export function Engines() {
  const { data, error, reload } = useApi('/v1/management/engines', { every: 15_000 });
  return html`<div class="page stack"><h1>${t('nav.engines')}</h1><p class="quiet">${t('engine.intro')}</p><${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    <div class="grid">${data?.engines.map((/** @type {any} */ engine) => html`<${Engine} key=${engine.engine} engine=${engine} reload=${reload} />`)}</div></div>`;
}
