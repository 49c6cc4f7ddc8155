// Every component on one page, for looking at them side by side.
import { html, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { Markdown } from '../lib/markdown.js';
import { Ansi } from '../lib/ansi.js';
import { Card, Code, Empty, Id, Problem, Status, Tabs, Time } from '../components/basic.js';
import { ObjectFields } from '../components/form-fields.js';
import { SchemaTable } from '../components/schema-table.js';
import { Json, Source } from '../components/source.js';
import { Bars } from '../components/bars.js';
import { Chart } from '../components/chart.js';
import { DropZone } from '../components/drop-zone.js';
import { Changes } from '../components/diff.js';

const SCHEMA = { type: 'object', required: ['name'], properties: {
  name: { type: 'string', maxLength: 40, description: 'A short text.' }, size: { type: 'integer', minimum: 1, default: 3 }, form: { enum: ['round', 'square'] }, loud: { type: 'boolean' },
  tags: { type: 'array', items: { type: 'string', maxLength: 20 } }, place: { type: 'object', properties: { street: { type: 'string', maxLength: 80 } } } } };

const TIMES = [0, 60, 120, 180, 240, 300].map((second) => 1_790_000_000 + second);
const VALUES = [1, 3, 2, 5, 4, 6];

export function Components() {
  const [tab, setTab] = useState('one');
  const [value, setValue] = useState(/** @type {any} */ ({ size: 3, tags: ['a'] }));
  return html`<div class="page stack"><h1>${t('components.title')}</h1>
    <${Card} title="Status"><div class="row">${['queued', 'running', 'waiting_user', 'succeeded', 'failed', 'canceled'].map((status) => html`<${Status} key=${status} of=${status} />`)}</div><//>
    <${Card} title="Button"><div class="row"><button type="button" class="button main">Main</button><button type="button" class="button">Usual</button><button type="button" class="button risk">Risk</button><button type="button" class="button s">Small</button><button type="button" class="button" disabled>Disabled</button><button type="button" class="link">Link</button></div><//>
    <${Card} title="Tag"><div class="row"><span class="tag">plain</span><span class="tag good">good</span><span class="tag warn">warn</span><span class="tag bad">bad</span></div><//>
    <${Card} title="Note"><div class="stack-s"><p class="note">Plain</p><p class="note good">Good</p><p class="note warn">Warning</p><p class="note bad">Bad</p></div><//>
    <${Card} title="Tabs, Id, Time, Code"><div class="stack-s"><${Tabs} label="Tabs" tabs=${[{ id: 'one', name: 'One' }, { id: 'two', name: 'Two' }]} chosen=${tab} choose=${setTab} /><div><${Id} id="0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11" /> <${Time} iso=${new Date(Date.now() - 90_000).toISOString()} /></div><${Code} text="skill-runner serve" label="Code" /></div><//>
    <${Card} title="Markdown, ANSI"><div class="stack-s"><${Markdown} text=${'# Heading\n\nText with **weight**, `code` and [a link](https://example.org).\n\n- one\n- two\n\n| a | b |\n| --- | --- |\n| 1 | 2 |'} /><pre class="code"><${Ansi} text=${'\u001b[31mred\u001b[0m \u001b[1;32mbold green\u001b[0m \u001b[36mcyan\u001b[0m \u001b[33myellow\u001b[0m plain'} /></pre></div><//>
    <${Card} title="Source, Json"><div class="stack-s"><pre class="code" tabindex="0" role="group" aria-label="Python"><${Source} text=${'# Sums the lines.\nimport sys\n\ndef total(lines):\n    return sum(float(line) for line in lines if line != "")\n'} language="python" /></pre><${Json} value=${{ name: 'x', sizes: [1, 2.5], round: true, none: null }} label="Json" /></div><//>
    <${Card} title="Chart, Bars"><div class="stack-s"><${Chart} label="Chart" times=${TIMES} values=${VALUES} shown=${String} /><${Bars} label="Bars" bars=${[3, 5, 2, 6].map((whole, at) => ({ whole, failed: at === 1 ? 2 : 0, name: String(at) }))} /></div><//>
    <${Card} title="DropZone, Changes"><div class="stack-s"><${DropZone} label="Drop a file" take=${() => {}} /><${Changes} of=${[{ path: 'SKILL.md', change: 'changed', diff: '@@ -1 +1 @@\n-old\n+new\n' }]} findings=${[{ file: 'SKILL.md', pointer: '', severity: 'warning', code: 'CODE', message: 'A finding stands beside its file.', hint: '' }]} /></div><//>
    <${Card} title="Fields"><${ObjectFields} schema=${SCHEMA} path="" value=${value} set=${setValue} errors=${{ '/name': ['"name" is a required property'] }} /><//>
    <${Card} title="SchemaTable"><${SchemaTable} schema=${SCHEMA} empty="" label="Schema" /><//>
    <${Card} title="Empty, Problem"><${Empty} title="Nothing here yet" /><${Problem} error=${{ code: 'QUEUE_FULL', message: 'the queue is full; try again later', details: [] }} retry=${() => {}} /><//>
  </div>`;
}
