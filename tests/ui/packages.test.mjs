// A skill is dropped on the page, its findings and changes are read, it is updated, compared and rolled back; an export is audited and played.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Service, browser, page } from './support.mjs';

let service;
let started;
before(async () => {
  service = await new Service().start();
  started = await browser();
});
after(async () => {
  await started?.close();
  await service?.stop();
});

/** The zip of a skill, as bytes. */
function zipped(id, version, { sh = `echo '{"success":true,"data":{"version":"${version}"}}'\n`, automation = {}, skill = `---\nname: ${id}\ndescription: A package.\n---\n\nDoes it.\n` } = {}) {
  const folder = fs.mkdtempSync(path.join(service.folder, 'package-'));
  const runner = { id, version, execution_modes: ['auto'], schemas: {}, automation, entrypoint: { type: 'script', script: { command: 'sh scripts/run.sh' } } };
  for (const [name, text] of Object.entries({ 'SKILL.md': skill, 'assets/runner.json': JSON.stringify(runner, null, 2), 'scripts/run.sh': `cat > /dev/null\n${sh}` })) {
    fs.mkdirSync(path.dirname(path.join(folder, id, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, id, name), text);
  }
  execFileSync('python3', ['-m', 'zipfile', '-c', path.join(folder, 'it.zip'), path.join(folder, id)]);
  return fs.readFileSync(path.join(folder, 'it.zip'));
}

/** Drops a file on the page's place for files. */
async function drop(opened, name, bytes) {
  const dropped = await opened.evaluateHandle(([called, base64]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], called, { type: 'application/zip' }));
    return transfer;
  }, [name, bytes.toString('base64')]);
  await opened.dispatchEvent('.drop', 'drop', { dataTransfer: dropped });
}

test('a package is checked, installed, updated with its changes shown, compared and rolled back', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/skills`);
  await opened.getByRole('button', { name: 'Install a skill' }).click();
  await drop(opened, 'broken.zip', zipped('dropped', '1.0.0', { skill: 'no front matter' }));
  await opened.getByText('SKILL_PACKAGE_INVALID').waitFor();
  await opened.locator('.note.bad code', { hasText: 'SKILL.md' }).first().waitFor();
  await drop(opened, 'first.zip', zipped('dropped', '1.0.0'));
  await opened.getByRole('button', { name: 'Install', exact: true }).click();
  await opened.getByRole('link', { name: 'Installed: dropped 1.0.0' }).waitFor();

  await drop(opened, 'second.zip', zipped('dropped', '1.1.0', { automation: { network: 'on' } }));
  await opened.getByText('dropped 1.0.0 → 1.1.0').waitFor();
  await opened.locator('.note.warn', { hasText: 'What it may do changes' }).getByText('network').waitFor();
  await opened.locator('.diff .plus', { hasText: '"version": "1.1.0"' }).waitFor();
  await opened.locator('.diff .minus', { hasText: '"version": "1.0.0"' }).waitFor();
  assert.match(await opened.locator('.diff', { hasText: '"version"' }).first().innerText(), /\n-  "version": "1\.0\.0",?\n\+  "version": "1\.1\.0",?\n/, 'each line stands on a line');
  assert.equal((await service.get('/v1/skills/dropped')).version, '1.0.0', 'nothing is installed before it is asked for');
  await opened.getByRole('button', { name: 'Update', exact: true }).click();
  await opened.getByRole('link', { name: 'Installed: dropped 1.1.0' }).click();

  await opened.getByRole('heading', { name: 'dropped', exact: true }).waitFor();
  await opened.getByRole('button', { name: 'scripts/run.sh' }).click();
  await opened.locator('pre', { hasText: '"version":"1.1.0"' }).waitFor();
  await opened.locator('.filelist pre .h-name', { hasText: 'echo' }).waitFor();
  await opened.locator('dt', { hasText: 'Secrets' }).waitFor();
  await opened.locator('dt', { hasText: 'Confinement' }).waitFor();
  await opened.getByRole('button', { name: 'Compare' }).click();
  await opened.locator('.diff .plus', { hasText: '"version": "1.1.0"' }).waitFor();
  await opened.getByRole('button', { name: 'Roll back' }).click();
  await opened.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
  await service.until(() => service.get('/v1/skills/dropped'), (skill) => skill.version === '1.0.0');
  await opened.locator('p.mono', { hasText: 'dropped · 1.0.0' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('a field is checked while it is written, in the words of the service', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/skills/demo-prime-number/run`);
  await opened.getByLabel('divisor').fill('three');
  await opened.getByText('"three" is not of type "integer"').first().waitFor();
  await opened.getByLabel('divisor').fill('3');
  await opened.getByText('"three" is not of type "integer"').first().waitFor({ state: 'detached' });
  assert.equal((await service.get('/v1/jobs')).jobs.length, 0);
  assert.deepEqual(opened.troubles, []);
});

test('a run says that it was audited, and names what was changed', async () => {
  const job = await service.run('demo-echo', { input: { text: 'audited' } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.badge', { hasText: 'audited' }).waitFor();
  const result = path.join(service.folder, 'data/runs', job.run_id, 'result/result.json');
  fs.writeFileSync(result, fs.readFileSync(result, 'utf8').replace('audited', 'changed'));
  await opened.reload();
  await opened.locator('.badge summary .bad', { hasText: 'result/result.json' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('an export is audited and played again, and a changed one is not believed', async () => {
  const job = await service.run('demo-progress');
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  const zip = Buffer.from(await (await fetch(`${service.url}/v1/jobs/${job.request_id}/export`)).arrayBuffer());
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/audit`);
  await drop(opened, 'run.zip', zip);
  await opened.locator('.tag.good', { hasText: 'audited' }).waitFor();
  const at = (seq) => opened.locator('[data-testid="replay-at"]', { hasText: `${seq} of ${events.length}` });
  await at(events.length).waitFor();
  await opened.locator(`#event-${events.find((event) => event.type === 'run.progress').seq}`).click();
  await opened.locator('.raw mark').waitFor();
  await opened.getByRole('button', { name: '16×' }).click();
  await at(events.length).waitFor();
  await opened.getByRole('button', { name: 'Play' }).waitFor();
  await opened.getByRole('slider').fill('3');
  await at(3).waitFor();

  const changed = Buffer.from(zip);
  changed[changed.indexOf('"percent"') + 2] ^= 1;
  await drop(opened, 'changed.zip', changed);
  await opened.locator('.tag.bad').waitFor();
  await opened.locator('.note.bad', { hasText: 'SEAL' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('the last day, both streams in order, a part of the timeline, and models of a new version', async () => {
  service.skill('mixed', 'cat > /dev/null\necho one >&2\nsleep 0.2\necho two >&2\necho \'{"success":true,"data":{}}\'\n');
  const job = await service.run('mixed');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.getByRole('tab', { name: 'both' }).click();
const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  const said = events.filter((event) => event.type.startsWith('raw.')).map((event) => event.data.text.trimEnd());
  assert.deepEqual([...said].sort().join('\n').split('\n'), ['one', 'two', '{"success":true,"data":{}}']);
  await opened.waitForFunction((expected) => JSON.stringify([...document.querySelectorAll('.raw .line code')].map((line) => line.textContent)) === expected, JSON.stringify(said));
  await opened.getByRole('button', { name: 'Zoom in' }).click();
  await opened.waitForFunction(() => document.querySelector('.spans').getAttribute('viewBox') === '250 0 500 24');
  await opened.getByRole('button', { name: 'Earlier', exact: true }).click();
  await opened.waitForFunction(() => document.querySelector('.spans').getAttribute('viewBox') === '125 0 500 24');

  await opened.goto(`${service.url}/ui`);
  await opened.getByText(/\d+ runs in the last day, 0 failed/).waitFor();
  await opened.goto(`${service.url}/ui/engines`);
  const codex = opened.locator('.card', { has: opened.getByRole('heading', { name: 'codex', exact: true }) });
  await codex.getByRole('button', { name: /^Models/ }).click();
  await codex.getByText('Add a list of models').click();
  await codex.getByLabel('Version of the CLI').fill('99.0.0');
  await codex.getByLabel('Names of models').fill('gpt-99@low\ngpt-99@high');
  await codex.getByRole('button', { name: 'Add', exact: true }).click();
  await opened.getByText('2 models added').waitFor();
  assert.equal((await service.get('/v1/engines/codex/models/manifest')).snapshots.some((snapshot) => snapshot.cli_version === '99.0.0'), true);
  assert.deepEqual(opened.troubles, []);
});
