// One skill: what it does, what it takes and gives, what it may do, and its last runs.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { useApi } from '../lib/api.js';
import { href } from '../lib/router.js';
import { duration } from '../lib/format.js';
import { Markdown } from '../lib/markdown.js';
import { Card, Id, Loading, Problem } from '../components/basic.js';
import { Findings, SchemaTable } from '../components/schema-table.js';
import { Shown } from '../components/run/result.js';
import { Versions } from '../components/skill-versions.js';
import { RunTable } from './home.js';

/** @param {{skill: any}} props */
function MayDo({ skill }) {
  const { automation, front_matter: front } = skill;
  const tools = front['allowed-tools'];
  const network = automation.network ? t(`network.${automation.network}`) + (automation.allowlist?.length ? `: ${automation.allowlist.join(', ')}` : '') : t('may.unsaid');
  const settings = useApi('/v1/management/settings');
  const passed = (settings.data?.settings ?? []).filter((/** @type {any} */ row) => skill.effective_engines.some((/** @type {string} */ engine) => row.key === `engines.${engine}.env_pass`)).flatMap((/** @type {any} */ row) => row.value.split(/[\s,]+/).filter(Boolean));
  const held = skill.isolation;
  const facts = [
    [t('may.kind'), t(`kind.${skill.type}`)],
    skill.entrypoint.script && [t('may.command'), html`<code>${skill.entrypoint.script.command}</code>`],
    [t('may.engines'), skill.effective_engines.join(', ')],
    [t('may.modes'), skill.execution_modes.map((/** @type {string} */ mode) => t(`mode.${mode}`)).join(', ')],
    [t('may.network'), network],
    [t('may.files'), automation.fs_scope ?? t('may.unsaid')],
    [t('may.tools'), tools ? (Array.isArray(tools) ? tools.join(', ') : String(tools)) : t('may.unsaid')],
    settings.data && [t('may.secrets'), passed.length ? [...new Set(passed)].join(', ') : t('may.nosecrets')],
    [t('may.held'), html`${t(`tier.${held.tier}`)}${held.not_enforced.length > 0 && html` <span class="tag warn" title=${held.not_enforced.join('\n')}>${t('bounds.notenforced')}</span>`}`],
    [t('may.time'), skill.timeout_seconds ? duration(skill.timeout_seconds * 1000) : t('may.unsaid')],
    front.license && [t('may.license'), front.license],
    front.compatibility && [t('may.needs'), front.compatibility],
    [t('may.fingerprint'), html`<${Id} id=${skill.fingerprint} />`],
  ].filter(Boolean);
  return html`<dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd class="any">${value}</dd>`)}</dl>
    <p class="small quiet">${t('may.note')}</p>`;
}

/** The files of the package, each with a preview. @param {{skill: any}} props */
function Files({ skill }) {
  const [seen, setSeen] = useState('');
  return html`<ul class="bare mono filelist" tabindex="0" aria-label=${t('skill.files', { n: skill.files.length })}>${skill.files.map((/** @type {string} */ file) => html`<li key=${file} class="any">
    <button type="button" class="link any" aria-expanded=${seen === file ? 'true' : 'false'} onClick=${() => setSeen(seen === file ? '' : file)}>${file}</button>
    ${seen === file && html`<${SkillFile} id=${skill.id} path=${file} />`}</li>`)}</ul>`;
}

/** @param {{id: string, path: string}} props */
function SkillFile({ id, path }) {
  const { data, error } = useApi(`/v1/management/skills/${encodeURIComponent(id)}/file?path=${encodeURIComponent(path)}`);
  if (error) return html`<${Problem} error=${error} />`;
  return data ? html`<${Shown} data=${data} />` : html`<${Loading} />`;
}

/** @param {{id: string}} props */
export function SkillPage({ id }) {
  const { data: skill, error, reload } = useApi(`/v1/management/skills/${encodeURIComponent(id)}`);
  const runs = useApi(`/v1/management/runs?skill_id=${encodeURIComponent(id)}&limit=5`, { every: 3000 });
  if (error) return html`<div class="page stack"><h1>${id}</h1><${Problem} error=${error} retry=${reload} /></div>`;
  if (!skill) return html`<div class="page"><h1 class="out">${id}</h1><${Loading} /></div>`;
  return html`<div class="page stack">
    <div class="row"><div class="grow"><h1>${skill.name}</h1><p class="small quiet mono">${skill.id} · ${skill.version}</p></div>
      <a class="button main" href=${href(['skills', id, 'run'])}>${t('action.run')}</a></div>
    <p class="lead">${skill.description}</p>
    ${skill.warnings.length > 0 && html`<${Findings} of=${skill.warnings} />`}
    <div class="two">
      <div class="stack">
        <${Card} title=${t('skill.input')} flush><div class="body"><${SchemaTable} schema=${skill.schemas.input} empty=${t('skill.noinput')} label=${t('skill.input')} /></div><//>
        <${Card} title=${t('skill.parameter')} flush><div class="body"><${SchemaTable} schema=${skill.schemas.parameter} empty=${t('skill.noparameter')} label=${t('skill.parameter')} /></div><//>
        <${Card} title=${t('skill.output')} flush><div class="body"><${SchemaTable} schema=${skill.schemas.output} empty=${t('skill.nooutput')} label=${t('skill.output')} />
          ${skill.artifacts.length > 0 && html`<h3 class="gap">${t('skill.artifacts')}</h3><ul>${skill.artifacts.map((/** @type {any} */ rule) => html`<li key=${rule.pattern}><code>${rule.pattern}</code> <span class="quiet">${rule.role}</span> ${rule.required && html`<span class="tag">${t('schema.required')}</span>`}</li>`)}</ul>`}</div><//>
      </div>
      <div class="stack">
        <${Card} title=${t('skill.may')}><${MayDo} skill=${skill} /><//>
        <${Card} title=${t('skill.files', { n: skill.files.length })}><${Files} skill=${skill} /><//>
        <${Versions} id=${id} reload=${reload} />
      </div>
    </div>
    <${Card} title=${t('skill.readme')}><${Markdown} text=${skill.readme} /><//>
    ${runs.data?.jobs?.length > 0 && html`<${Card} title=${t('skill.runs')} flush tools=${html`<a href=${href([], { skill_id: id })}>${t('skill.allruns')}</a>`}><${RunTable} jobs=${runs.data.jobs} /><//>`}
  </div>`;
}
