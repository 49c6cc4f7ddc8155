// The installed skills, and the folders that are not valid skills.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { useApi } from '../lib/api.js';
import { Card, Empty, Loading, Problem } from '../components/basic.js';
import { PackageDrop } from '../components/package-drop.js';
import { SkillTiles, useSkillSearch } from '../components/skill-tiles.js';
import { Findings } from '../components/schema-table.js';

export function Skills() {
  const skills = useApi('/v1/management/skills', { every: 10_000 });
  const [installing, setInstalling] = useState(false);
  const { wanted, found, field } = useSkillSearch(skills.data?.skills ?? []);
  return html`<div class="page stack">
    <div class="row"><h1 class="grow">${t('nav.skills')}</h1>${field}
      <button type="button" class="button" aria-expanded=${installing ? 'true' : 'false'} onClick=${() => setInstalling(!installing)}>${t('install.title')}</button></div>
    ${installing && html`<${PackageDrop} done=${skills.reload} />`}
    <${Problem} error=${skills.error} retry=${skills.reload} />
    ${!skills.data && !skills.error && html`<${Loading} />`}
    ${skills.data && found.length === 0 && html`<${Empty} title=${wanted ? t('skills.nomatch') : t('skills.none')} />`}
    <${SkillTiles} skills=${found} to="page" />
    ${skills.data?.invalid?.length > 0 && html`<${Card} title=${t('skills.invalid')}><div class="stack">${skills.data.invalid.map((/** @type {any} */ entry) => html`<div key=${entry.folder}><h3 class="mono">${entry.folder}</h3><${Findings} of=${entry.findings} /></div>`)}</div><//>`}
  </div>`;
}
