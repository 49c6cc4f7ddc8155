// Skills as tiles, with a search for one.
import { html } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { go, href, place, withQuery } from '../lib/router.js';

/** The skills that the words in the address fit, and the field for these words. @param {any[]} skills */
export function useSkillSearch(skills) {
  const wanted = (place.value.query.get('q') ?? '').toLowerCase();
  const search = (/** @type {any} */ event) => go(withQuery({ q: event.currentTarget.value }), { replace: true });
  const found = skills.filter((skill) => `${skill.id} ${skill.name} ${skill.description}`.toLowerCase().includes(wanted));
  const field = html`<input class="input search" data-search type="search" value=${wanted} onInput=${search} placeholder=${t('skills.search')} aria-label=${t('skills.search')} />`;
  return { wanted, found, field };
}

/** @param {{skills: any[], to: 'page' | 'run'}} props where the name of a skill leads */
export function SkillTiles({ skills, to }) {
  if (skills.length === 0) return null;
  return html`<ul class="tiles bare">${skills.map((skill) => html`<li class="card tile" key=${skill.id}>
      <div class="row keep"><h2 class="grow cut"><a href=${href(to === 'run' ? ['skills', skill.id, 'run'] : ['skills', skill.id])}>${skill.name}</a></h2>
        <span class=${`tag ${skill.health === 'ok' ? '' : 'warn'}`}>${skill.health === 'ok' ? t(`kind.${skill.type}`) : t('skills.warnings', { n: skill.warnings.length })}</span></div>
      <p class="small quiet mono">${skill.id} · ${skill.version}</p>
      <div class="grow"><p class="clamp3">${skill.description}</p></div>
      <div class="row keep"><span class="small quiet grow cut">${skill.effective_engines.join(', ')}</span>
        <a class="button s" href=${href(['skills', skill.id, 'run'])} aria-label=${t('skills.run', { skill: skill.name })}>${t('action.run')}</a></div>
    </li>`)}</ul>`;
}
