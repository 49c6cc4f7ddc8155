// What happens while a page looks on: an installation and its log, text as it is written, every kind of question, a disk that fills up, plots.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Service, browser, page } from './support.mjs';

// npm, as far as an installation needs it: it is at work until the gate opens, and knows one package.
const NPM = `#!/bin/sh
for word; do package=$word; done
echo "npm is at work on $package"
read line < FOLDER/codex/npm-gate
case "$package" in *gemini*) ;; *) echo "no such package" >&2; exit 1 ;; esac
mkdir -p "$3/node_modules/.bin"
printf '#!/bin/sh\\necho %s\\n' "\${package##*@}" > "$3/node_modules/.bin/gemini"
chmod +x "$3/node_modules/.bin/gemini"
`;
// gemini, which has written a part of its message when it waits.
const GEMINI = `#!/bin/sh
[ "$1" = --version ] && { echo 0.61.0; exit 0; }
cat > /dev/null
echo '{"type":"init","session_id":"0192f0c1-2d3e-4f40-8a51-6b7c8d9e0f11","model":"m"}'
echo '{"type":"message","role":"assistant","content":"Half of an **answer**","delta":true}'
read line < FOLDER/codex/gemini-gate
echo '{"type":"message","role":"assistant","content":" and the rest","delta":true}'
echo '{"type":"result","status":"success","stats":{"input_tokens":10,"output_tokens":2}}'
`;

let service;
let started;
before(async () => {
  service = new Service();
  const script = (name, text) => {
    fs.mkdirSync(path.dirname(name), { recursive: true });
    fs.writeFileSync(name, text.replaceAll('FOLDER', service.folder), { mode: 0o755 });
  };
  script(path.join(service.folder, 'bin/npm'), NPM);
  for (const gate of ['npm-gate', 'gemini-gate']) execFileSync('mkfifo', [path.join(service.folder, 'codex', gate)]);
  service.gemini = () => script(path.join(service.folder, 'data/npm/node_modules/.bin/gemini'), GEMINI);
  const runner = path.join(service.folder, 'skills/demo-interview/assets/runner.json');
  fs.writeFileSync(runner, fs.readFileSync(runner, 'utf8').replace(/"max_attempt": \d+/, '"max_attempt": 20'));
  // Work is taken, but not for long any more.
  const { bavail, bsize } = fs.statfsSync(service.folder);
  service.env = { PATH: `${path.join(service.folder, 'bin')}:${process.env.PATH}`, SKILL_RUNNER_MIN_FREE_BYTES: String(Math.floor((bavail * bsize) / 3)) };
  await service.start();
  started = await browser();
});
after(async () => {
  await started?.close();
  await service?.stop();
});

/** Lets what waits at a gate go on. */
function open(gate) {
  fs.writeFileSync(path.join(service.folder, 'codex', gate), 'go\n');
}

test('an engine is installed, with its log while it is written; an installation that fails says why', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/engines`);
  const card = (name) => opened.locator('.card', { has: opened.getByRole('heading', { name, exact: true }) });
  const install = async (name) => {
    await card(name).getByRole('button', { name: 'Install', exact: true }).click();
    const dialog = opened.getByRole('dialog');
    await dialog.getByText(`skill-runner engines --install ${name}`).waitFor();
    await dialog.getByRole('button', { name: 'Install', exact: true }).click();
    await card(name).locator('pre', { hasText: 'npm is at work on' }).waitFor();
    await card(name).locator('.tag', { hasText: 'running' }).waitFor();
    open('npm-gate');
  };
  await card('gemini').locator('.tag', { hasText: 'not installed' }).waitFor();
  await install('gemini');
  await card('gemini').locator('.tag.good', { hasText: 'succeeded' }).waitFor();
  await card('gemini').locator('pre', { hasText: 'is installed' }).waitFor();
  await card('gemini').getByRole('button', { name: 'Close' }).click();
  await card('gemini').locator('.tag', { hasText: 'needs a log-in' }).waitFor();
  await card('gemini').getByRole('button', { name: 'Install the measured version' }).waitFor();

  await install('qwen');
  await card('qwen').locator('.tag.bad', { hasText: 'failed' }).waitFor();
  await card('qwen').locator('p', { hasText: 'npm failed (exit status: 1)' }).waitFor();
  await card('qwen').locator('pre', { hasText: 'no such package' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('text is shown while it is written, among the words and among the bytes, and the reply box waits for the question', async () => {
  service.gemini();
  const job = await service.post('/v1/jobs', { skill_id: 'demo-interview', engine: 'gemini', runtime_options: { execution_mode: 'interactive' } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  const writing = opened.locator('.said.writing');
  await writing.locator('strong', { hasText: 'answer' }).waitFor();
  await opened.locator('.raw .line', { hasText: 'Half of an **answer**' }).waitFor();
  assert.equal(await opened.locator('.said.message:not(.writing)').count(), 0, 'no event has the message yet');
  const box = opened.getByRole('region', { name: 'Answer' });
  assert.equal(await box.getByRole('textbox', { name: 'No question is open' }).isDisabled(), true);
  assert.equal(await box.getByRole('button', { name: 'Send' }).isDisabled(), true);
  open('gemini-gate');
  await opened.locator('.said.message:not(.writing)', { hasText: 'Half of an answer and the rest' }).waitFor();
  await writing.waitFor({ state: 'detached' });
  await box.locator('textarea').waitFor();
  assert.equal(await box.getByRole('button', { name: 'Send' }).isEnabled(), true);
  assert.deepEqual(opened.troubles, []);
});

test('every kind of question has its own control and its deadline, and other words are taken where they may be', async () => {
  const ask = (yaml) => [{ type: 'agent_message', text: `<ASK_USER_YAML>\n${yaml}\n</ASK_USER_YAML>` }];
  service.codexSays(
    ask('kind: choose_one\nprompt: Which colour?\noptions: [red, green]\ndefault_decision_policy: take red'),
    ask('kind: choose_one\nprompt: Which of these alone?\noptions: [one, two]\nui_hints: {strict: true}'),
    ask('kind: confirm\nprompt: Shall I go on?'),
    ask('kind: confirm\nprompt: And now?'),
    ask('kind: risk_ack\nprompt: All files will be deleted.'),
    ask('kind: fill_fields\nprompt: Who are you?\nrequired_fields: [name, town]'),
    ask('kind: open_text\nprompt: Anything else?'),
    [{ type: 'agent_message', text: '{"name": "Ann", "colour": "red"}\n__SKILL_DONE__' }],
  );
  const job = await service.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive', interactive_auto_reply: true, interactive_reply_timeout_sec: 600 } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  const box = opened.locator('.reply:not(.closed)');
  const asked = (prompt) => box.locator('.prompt', { hasText: prompt }).waitFor();
  const send = box.getByRole('button', { name: 'Send' });
  const button = (name) => box.getByRole('button', { name, exact: true });

  await asked('Which colour?');
  const left = async () => { const [, minutes, seconds] = /\((\d+):(\d\d)\)/.exec(await box.innerText()); return Number(minutes) * 60 + Number(seconds); };
  const first = await left();
  assert.ok(first > 0 && first <= 600, `${first} s are left`);
  await service.until(left, (now) => now < first);
  await box.getByText('Without an answer: take red').waitFor();
  assert.equal(await send.isDisabled(), true, 'nothing is chosen');
  await box.getByRole('radio', { name: 'green' }).check();
  await box.getByLabel('In other words…').fill('a dark blue');
  assert.equal(await box.getByRole('radio', { name: 'green' }).isChecked(), false);
  await send.click();

  await asked('Which of these alone?');
  assert.equal(await box.getByLabel('In other words…').count(), 0, 'it takes nothing else');
  await box.getByRole('radio', { name: 'two' }).check();
  await opened.keyboard.press('Control+Enter');

  await asked('Shall I go on?');
  await button('No').waitFor();
  await button('Yes').click();
  await asked('And now?');
  await box.getByLabel('In other words…').fill('only the first half');
  await send.click();

  await asked('All files will be deleted.');
  assert.equal(await box.getByLabel('In other words…').count(), 0);
  await button('Decline').waitFor();
  assert.equal(await button('Acknowledge').isDisabled(), true, 'the risk is not acknowledged by a slip');
  await box.getByRole('checkbox', { name: 'I understand the risk' }).check();
  await button('Acknowledge').click();

  await asked('Who are you?');
  await box.getByLabel('name', { exact: true }).fill('Ann');
  await box.getByLabel('town', { exact: true }).fill('Ulm');
  await send.click();
  await asked('Anything else?');
  await box.locator('textarea').fill('No,\nthanks');
  await send.click();

  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  const answers = events.filter((event) => event.type === 'interaction.reply.accepted').map((event) => event.data.response_preview);
  assert.deepEqual(answers, ['a dark blue', 'two', 'true', 'only the first half', 'true', '{"name":"Ann","town":"Ulm"}', 'No,\nthanks']);
  assert.equal(await opened.locator('.said.answer').count(), answers.length);
  assert.equal(await opened.locator('.reply').count(), 0, 'a run that is over takes no answers');
  assert.deepEqual(opened.troubles, []);
});

test('a disk that fills up is told at home, and what the service counts is plotted and can be looked at closely', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui`);
  await opened.getByRole('link', { name: /of disk left$/ }).click();
  await opened.waitForURL(/\/ui\/system$/);
  const closer = opened.getByRole('button', { name: 'Show less time' });
  const all = opened.getByRole('button', { name: 'All', exact: true });
  await opened.locator('.plot .u-over').nth(7).waitFor({ state: 'attached' });
  // A few samples are there.
  await opened.waitForFunction(() => !document.querySelector('[aria-label="Show less time"]').disabled);
  assert.equal(await all.isDisabled(), true);
  const plot = opened.locator('.plot', { hasText: 'Memory' });
  await plot.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await plot.locator('.u-over').boundingBox();
  await opened.mouse.move(x + width * 0.3, y + height / 2);
  // The moment under the pointer is told on every plot.
  await opened.waitForFunction(() => document.querySelectorAll('.plot figcaption time').length === 8);
  await opened.mouse.down();
  await opened.mouse.move(x + width * 0.8, y + height / 2, { steps: 4 });
  await opened.mouse.up();
  await opened.waitForFunction(() => [...document.querySelectorAll('button')].some((button) => button.textContent === 'All' && !button.disabled));
  await all.click();
  assert.equal(await all.isDisabled(), true);
  await closer.focus();
  await opened.keyboard.press('Enter');
  await opened.waitForFunction(() => [...document.querySelectorAll('button')].some((button) => button.textContent === 'All' && !button.disabled));
  assert.match(await plot.locator('[role=img]').getAttribute('aria-label'), /^Memory: \d.* MiB, .* – /);

  // A page that is left, or whose service has gone, does not get the library of the plots: the numbers stand alone.
  const without = await page(started);
  await without.route(/vendor\/uplot\.js/, (route) => route.abort());
  const missed = without.waitForEvent('requestfailed');
  await without.goto(`${service.url}/ui/system`);
  await missed;
  await without.locator('.plot', { hasText: 'Memory' }).locator('strong', { hasText: 'MiB' }).waitFor();
  assert.deepEqual([...opened.troubles, ...without.troubles], []);
});
