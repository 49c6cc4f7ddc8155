// A skill that comes with one run: its package is dropped, checked by the service, filled in and run, and never installed.
import { html, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { api } from '../../lib/api.js';
import { Problem } from '../../components/basic.js';
import { DropZone } from '../../components/drop-zone.js';
import { Findings } from '../../components/schema-table.js';
import { Filled } from '../run-form.js';

export function OneOff() {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [checked, setChecked] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const take = async (/** @type {File} */ taken) => {
    setFile(taken);
    setChecked(null);
    setError(null);
    const form = new FormData();
    form.append('file', taken, taken.name);
    api('/v1/skill-packages/check', { form }).then(setChecked, setError);
  };
  return html`<div class="page stack"><h1>${t('e2e.oneoff')}</h1><p class="quiet">${t('e2e.oneoffintro')}</p>
      <${DropZone} label=${t('e2e.drop')} accept=".zip,application/zip" take=${(/** @type {File[]} */ files) => take(files[0])} />
      <${Problem} error=${error} />
      ${checked?.findings.length > 0 && html`<${Findings} of=${checked.findings} />`}
      ${checked && !checked.skill && checked.refused && html`<p class="note bad" role="alert">${checked.refused.message}</p>`}</div>
    ${checked?.skill && file && html`<${Filled} key=${`${file.name}${checked.skill.fingerprint}`} skill=${checked.skill} from=${null} events=${[]} packed=${file} />`}`;
}
