// Installs a skill: its zip is checked first, what would change is shown, and only then it is installed.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { api } from '../lib/api.js';
import { href } from '../lib/router.js';
import { Card, Problem, say } from './basic.js';
import { Changes } from './diff.js';
import { DropZone } from './drop-zone.js';
import { Findings } from './schema-table.js';

/** @param {{done: () => void}} props */
export function PackageDrop({ done }) {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [checked, setChecked] = useState(/** @type {any} */ (null));
  const [installed, setInstalled] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const send = async (/** @type {string} */ path, /** @type {File} */ zip) => {
    const form = new FormData();
    form.append('file', zip, zip.name);
    return api(path, { form });
  };
  const take = async (/** @type {File} */ zip) => {
    setFile(zip);
    setChecked(null);
    setInstalled(null);
    setError(null);
    try {
      setChecked(await send('/v1/skill-packages/check', zip));
    } catch (refused) {
      setError(refused);
    }
  };
  const install = async () => {
    if (!file) return;
    setBusy(true);
    setError(null);
    try {
      const answer = await send('/v1/skill-packages/install?wait=60', file);
      setInstalled(answer);
      setChecked(null);
      say(t('install.done', { id: answer.skill_id, version: answer.version }));
      done();
    } catch (refused) {
      setError(refused);
    }
    setBusy(false);
  };
  return html`<div class="stack-s"><${DropZone} label=${t('install.drop')} accept=".zip,application/zip" take=${(/** @type {File[]} */ files) => take(files[0])} />
    <${Problem} error=${error} />
    ${installed && html`<p class="note good" role="status"><a href=${href(['skills', installed.skill_id])}>${t('install.done', { id: installed.skill_id, version: installed.version ?? '' })}</a></p>`}
    ${checked && file && html`<${Checked} name=${file.name} checked=${checked} busy=${busy} install=${install} />`}</div>`;
}

/** @param {{name: string, checked: any, busy: boolean, install: () => void}} props */
function Checked({ name, checked, busy, install }) {
  const { skill, replaces, refused, action } = checked;
  // What is about a file that changes stands beside it.
  const elsewhere = checked.findings.filter((/** @type {any} */ finding) => !skill || !checked.changes.some((/** @type {any} */ change) => change.path === finding.file));
  const title = skill ? `${skill.id} ${replaces ? `${replaces.version} → ` : ''}${skill.version}` : name;
  return html`<${Card} title=${title} tools=${action && html`<button type="button" class="button main s" disabled=${busy} onClick=${install}>${busy ? t('install.busy') : t(`install.${action}`)}</button>`}><div class="stack">
    ${refused && html`<div class="note bad" role="alert"><p>${refused.message}</p><p class="small quiet"><code>${refused.code}</code></p></div>`}
    ${elsewhere.length > 0 && html`<${Findings} of=${elsewhere} />`}
    ${skill && html`<${MayChange} before=${replaces?.automation} after=${skill.automation} />`}
    ${skill && html`<div><h3>${replaces ? t('install.changes') : t('install.files')}</h3><${Changes} of=${checked.changes} findings=${checked.findings} /></div>`}</div><//>`;
}

/** What the skill asks to be allowed, where that is new. @param {{before: any, after: any}} props */
function MayChange({ before, after }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  if (names.length === 0) return null;
  const shown = (/** @type {any} */ value) => (value === undefined || value === null ? t('may.unsaid') : typeof value === 'string' ? value : JSON.stringify(value));
  return html`<div class="note warn"><h3>${t('install.may')}</h3><dl class="facts">${names.map((name) => html`<dt class="mono">${name}</dt><dd class="any">${before && html`<s class="quiet">${shown(before[name])}</s> → `}${shown(after[name])}</dd>`)}</dl></div>`;
}
