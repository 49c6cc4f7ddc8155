// The installed skills, and the folders that are not valid skills.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { useApi } from '../lib/api.js';
import { go, href, place, withQuery } from '../lib/router.js';
import { Card, Empty, Loading, Problem } from '../components/basic.js';
import { PackageDrop } from '../components/package-drop.js';
import { Findings } from '../components/schema-table.js';

export function Skills() {
  const skills = useApi('/v1/management/skills', { every: 10_000 });
  const [installing, setInstalling] = useState(false);
  const wanted = (place.value.query.get('q') ?? '').toLowerCase();
  const search = (/** @type {any} */ event) => go(withQuery({ q: event.currentTarget.value }), { replace: true });
  const found = (skills.data?.skills ?? []).filter((/** @type {any} */ skill) => `${skill.id} ${skill.name} ${skill.description}`.toLowerCase().includes(wanted));
  return html`<div class="page stack">
    <div class="row"><h1 class="grow">${t('nav.skills')}</h1><input class="input search" data-search type="search" value=${wanted} onInput=${search} placeholder=${t('skills.search')} aria-label=${t('skills.search')} />
      <button type="button" class="button" aria-expanded=${installing ? 'true' : 'false'} onClick=${() => setInstalling(!installing)}>${t('install.title')}</button></div>
    ${installing && html`<${PackageDrop} done=${skills.reload} />`}
    <${Problem} error=${skills.error} retry=${skills.reload} />
    ${!skills.data && !skills.error && html`<${Loading} />`}
    ${skills.data && found.length === 0 && html`<${Empty} title=${wanted ? t('skills.nomatch') : t('skills.none')} />`}
    ${found.length > 0 && html`<ul class="tiles bare">${found.map((/** @type {any} */ skill) => html`<li class="card tile" key=${skill.id}>
      <div class="row keep"><h2 class="grow cut"><a href=${href(['skills', skill.id])}>${skill.name}</a></h2>
        <span class=${`tag ${skill.health === 'ok' ? '' : 'warn'}`}>${skill.health === 'ok' ? t(`kind.${skill.type}`) : t('skills.warnings', { n: skill.warnings.length })}</span></div>
      <p class="small quiet mono">${skill.id} · ${skill.version}</p>
      <div class="grow"><p class="clamp3">${skill.description}</p></div>
      <div class="row keep"><span class="small quiet grow cut">${skill.effective_engines.join(', ')}</span>
        <a class="button s" href=${href(['skills', skill.id, 'run'])} aria-label=${t('skills.run', { skill: skill.name })}>${t('action.run')}</a></div>
    </li>`)}</ul>`}
    ${skills.data?.invalid?.length > 0 && html`<${Card} title=${t('skills.invalid')}><div class="stack">${skills.data.invalid.map((/** @type {any} */ entry) => html`<div key=${entry.folder}><h3 class="mono">${entry.folder}</h3><${Findings} of=${entry.findings} /></div>`)}</div><//>`}
  </div>`;
}
