// The skills that can be run, and the runs there are.
import { html } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { useApi } from '../../lib/api.js';
import { href } from '../../lib/router.js';
import { Card, Empty, Loading, Problem } from '../../components/basic.js';
import { SkillTiles, useSkillSearch } from '../../components/skill-tiles.js';
import { RunTable } from '../home.js';

export function Choose() {
  const skills = useApi('/v1/management/skills', { every: 10_000 });
  const runs = useApi('/v1/management/runs?limit=10', { every: 3000 });
  const { found, field } = useSkillSearch(skills.data?.skills ?? []);
  return html`<div class="page stack">
    <div class="row"><h1 class="grow">${t('nav.skills')}</h1>${field}<a class="button" href=${href(['one-off'])}>${t('e2e.oneoff')}</a></div>
    <p class="quiet">${t('e2e.intro')}</p>
    <${Problem} error=${skills.error} retry=${skills.reload} />
    ${!skills.data && !skills.error && html`<${Loading} />`}
    ${skills.data && found.length === 0 && html`<${Empty} title=${t(skills.data.skills.length ? 'skills.nomatch' : 'skills.none')} />`}
    <${SkillTiles} skills=${found} to="run" />
    ${runs.data?.jobs?.length > 0 && html`<${Card} title=${t('e2e.runs')} flush><${RunTable} jobs=${runs.data.jobs} /><//>`}
  </div>`;
}
