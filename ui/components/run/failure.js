// Why a run failed: the cause, the event that decided it, each violation with its bytes, and what to do.
import { html, useEffect, useState } from '../../lib/view.js';
import { t } from '../../lib/i18n.js';
import { api, runPath, useApi } from '../../lib/api.js';
import { number } from '../../lib/format.js';
import { href } from '../../lib/router.js';
import { Ansi } from '../../lib/ansi.js';
import { Problem } from '../basic.js';

const AROUND = 60;

/** @param {{id: string, job: any, choose: (seq: number, mark?: any) => void}} props */
export function Failure({ id, job, choose }) {
  const { data: why, error } = useApi(runPath(id, '/explain'));
  if (error) return html`<${Problem} error=${error} />`;
  if (!why) return html`<section class="why hold" aria-hidden="true"></section>`;
  return html`<section class="why fade" aria-label=${t('why.title')}>
    <h2>${t('why.title')}</h2>
    <p class="cause any">${why.cause}</p>
    <p class="small"><code>${why.code}</code> · <button type="button" class="link" onClick=${() => choose(why.decided_by.seq)}>${t('why.event', { n: why.decided_by.seq })}</button> <span class="quiet">${why.decided_by.type}</span></p>
    ${why.violations.length > 0 && html`<ul class="bare stack-s violations">${why.violations.map((/** @type {any} */ violation, /** @type {number} */ at) => html`<${Violation} key=${at} id=${id} violation=${violation} choose=${choose} />`)}</ul>`}
    ${why.stderr_tail && html`<pre class="code" tabindex="0" role="group" aria-label="stderr"><${Ansi} text=${why.stderr_tail} /></pre>`}
    ${why.next && html`<p><strong>${t('why.next')}</strong> ${why.next}</p>`}
    ${job.skill_id && html`<p class="row small"><a href=${href(['skills', job.skill_id])}>${t('why.schema')}</a><a href=${href(['skills', job.skill_id, 'run'], { from: id })}>${t('action.changed')}</a></p>`}
  </section>`;
}

/** @param {{id: string, violation: any, choose: (seq: number, mark?: any) => void}} props */
function Violation({ id, violation, choose }) {
  const origin = violation.origin;
  const inStream = origin?.kind === 'stream' && origin.byte_from !== undefined;
  const [bytes, setBytes] = useState(/** @type {string[] | null} */ (null));
  useEffect(() => {
    if (!inStream) return;
    const from = Math.max(0, origin.byte_from - AROUND);
    const read = (/** @type {number} */ begin, /** @type {number} */ end) => (end > begin ? api(runPath(id, `/logs/range?stream=${origin.stream}&byte_from=${begin}&byte_to=${end}`)).then((range) => (range.encoding === 'base64' ? '…' : range.content)) : Promise.resolve(''));
    const end = Math.min(origin.byte_to, origin.byte_from + 400);
    Promise.all([read(from, origin.byte_from), read(origin.byte_from, end), read(end, end + AROUND)]).then(setBytes, () => {});
  }, [id, origin?.byte_from]);
  return html`<li><p class="any"><code>${violation.path || '/'}</code> ${violation.message}</p>
    ${bytes && html`<p class="mono any bytes">${bytes[0]}<mark>${bytes[1]}</mark>${bytes[2]}</p>`}
    ${inStream && html`<p class="small"><button type="button" class="link" onClick=${() => choose(origin.seq, { stream: origin.stream, from: origin.byte_from, to: origin.byte_to })}>${t('why.event', { n: origin.seq })} · ${origin.stream} ${number(origin.byte_from)}–${number(origin.byte_to)}</button></p>`}</li>`;
}
