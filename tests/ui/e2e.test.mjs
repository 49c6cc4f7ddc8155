// The example client in a browser: a skill from its form to its result, a question, a package that is run once, recordings played
// back, the service away and back, and what a stranger gets.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { ExampleClient, Service, axe, browser, page } from './support.mjs';

let service;
let client;
let started;
before(async () => {
  service = await new Service().start();
  client = await new ExampleClient(service).start();
  started = await browser();
});
after(async () => {
  await started?.close();
  await client?.stop();
  await service?.stop();
});

/** The recorded actions of the run that a page shows. */
function actions(opened) {
  const id = /\/runs\/([0-9a-f-]{36})/.exec(opened.url())[1];
  const recording = JSON.parse(fs.readFileSync(path.join(client.recordings, `${id}.json`), 'utf8'));
  return { id, steps: recording.steps.map((step) => step.action) };
}

/** Drops a file on the n-th place for files. */
async function drop(opened, at, name, bytes) {
  const dropped = await opened.evaluateHandle(([called, base64]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], called));
    return transfer;
  }, [name, Buffer.from(bytes).toString('base64')]);
  await opened.locator('.drop').nth(at).dispatchEvent('drop', { dataTransfer: dropped });
}

test('a skill is chosen, filled in, run, watched and read, and the recording is played back step by step', async () => {
  const opened = await page(started);
  const asked = [];
  opened.on('request', (request) => asked.push(request.url()));
  await opened.goto(client.url);
  await opened.getByRole('link', { name: 'Run Prime numbers' }).click();
  await opened.getByRole('heading', { name: 'Run Prime numbers' }).waitFor();
  await drop(opened, 0, 'my numbers.txt', '2 3 4 97\n');
  await opened.getByText('my numbers.txt', { exact: true }).waitFor();
  await opened.getByLabel('divisor').fill('three');
  await opened.getByText('"three" is not of type "integer"').first().waitFor();
  await opened.getByLabel('divisor').fill('3');
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  await opened.locator('.said.end').waitFor();
  await opened.getByRole('link', { name: 'Result', exact: true }).click();
  await opened.locator('.tree', { hasText: 'count: 3' }).waitFor();
  const { id, steps } = actions(opened);
  assert.deepEqual(steps, ['create', 'upload', 'result_read']);

  await opened.getByRole('link', { name: 'Recording', exact: true }).click();
  const at = (n) => opened.locator('[data-testid="step-at"]', { hasText: `Step ${n} of 3` }).waitFor();
  await at(1);
  await opened.locator('pre .h-key', { hasText: '"divisor"' }).first().waitFor();
  await opened.getByRole('button', { name: 'Next step' }).click();
  await at(2);
  await opened.getByText('my numbers.txt').waitFor();
  await opened.keyboard.press('ArrowRight');
  await at(3);
  await opened.locator('pre', { hasText: '"count": 3' }).waitFor();
  assert.equal(await opened.getByRole('button', { name: 'Next step' }).isDisabled(), true);
  await opened.reload();
  await at(3);
  await opened.keyboard.press('Home');
  await at(1);
  await opened.getByRole('link', { name: 'Recordings' }).click();
  await opened.getByRole('row', { name: new RegExp(`demo-prime-number ${id}.*Create Upload Read the result`) }).waitFor();
  const foreign = asked.filter((address) => !address.startsWith(new URL(client.url).origin));
  assert.deepEqual(foreign, [], 'the pages ask the client alone');
  assert.deepEqual(opened.troubles, []);
});

test('mode, engine, model and options are chosen from what the skill and the service allow, and a question is answered', async () => {
  const ask = '<ASK_USER_YAML>\nkind: choose_one\nprompt: Which colour?\noptions: [green, blue]\n</ASK_USER_YAML>';
  service.codexSays([{ type: 'agent_message', text: `One question.\n\n${ask}` }], [{ type: 'agent_message', text: '{"name": "Ann", "colour": "green"}\n__SKILL_DONE__' }]);
  const opened = await page(started);
  await opened.goto(`${client.url}/skills/demo-interview/run`);
  const modes = (await service.get('/v1/skills/demo-interview')).execution_modes;
  await opened.waitForFunction((count) => document.querySelectorAll('#mode option').length === count, modes.length);
  await opened.getByLabel('Mode', { exact: true }).selectOption('interactive');
  await opened.getByLabel('Engine').selectOption('codex');
  const { models } = await service.get('/v1/engines/codex/models');
  await opened.waitForFunction((count) => document.querySelectorAll('#models option').length === count, models.length);
  await opened.getByText('More options').click();
  await opened.getByLabel('Do not use the cache').check();
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.getByRole('radio', { name: 'green' }).check();
  await opened.getByRole('button', { name: 'Send' }).click();
  await opened.locator('.said.answer', { hasText: 'green' }).waitFor();
  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  await opened.getByRole('link', { name: 'Result', exact: true }).click();
  await opened.locator('.tree', { hasText: 'colour: "green"' }).waitFor();
  const { id, steps } = actions(opened);
  assert.deepEqual(steps, ['create', 'reply', 'result_read']);
  const { steps: [create] } = JSON.parse(fs.readFileSync(path.join(client.recordings, `${id}.json`), 'utf8'));
  assert.deepEqual(create.request.json, { skill_id: 'demo-interview', engine: 'codex', runtime_options: { no_cache: true, execution_mode: 'interactive' } });
  assert.deepEqual(opened.troubles, []);
});

test('a package is dropped, filled in by its schemas and run once without being installed; a broken one is explained', async () => {
  service.skill('packed', 'read -r line\nprintf \'{"success":true,"data":{"got":%s}}\\n\' "$line"\n', { input: { type: 'object', required: ['word'], properties: { word: { type: 'string', maxLength: 20, 'x-input-source': 'inline' } } } });
  const [folder, moved] = [path.join(service.folder, 'skills/packed'), path.join(service.folder, 'packed')];
  fs.renameSync(folder, moved);
  execFileSync('python3', ['-m', 'zipfile', '-c', `${moved}.zip`, moved]);
  const opened = await page(started);
  await opened.goto(`${client.url}/one-off`);
  fs.writeFileSync(path.join(moved, 'SKILL.md'), 'no front matter');
  execFileSync('python3', ['-m', 'zipfile', '-c', `${moved}-broken.zip`, moved]);
  await drop(opened, 0, 'broken.zip', fs.readFileSync(`${moved}-broken.zip`));
  await opened.locator('.note.bad code', { hasText: 'SKILL.md' }).first().waitFor();
  await drop(opened, 0, 'packed.zip', fs.readFileSync(`${moved}.zip`));
  await opened.getByLabel('word').fill('hello');
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.waitForURL(/\/runs\//);
  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  await opened.getByRole('link', { name: 'Result', exact: true }).click();
  await opened.locator('.tree', { hasText: 'word: "hello"' }).waitFor();
  assert.deepEqual(actions(opened).steps, ['create', 'upload', 'result_read']);
  assert.equal((await fetch(`${service.url}/v1/skills/packed`)).status, 404);
  assert.deepEqual(opened.troubles, []);
});

test('a failed run shows its cause, and a service that is killed and restarted under the page is found again', async () => {
  const job = await service.run('demo-fail-schema');
  const opened = await page(started);
  await opened.goto(`${client.url}/runs/${job.request_id}/result`);
  await opened.getByText('the output breaks its schema').first().waitFor();
  await service.kill();
  await opened.goto(`${client.url}/runs/${job.request_id}`);
  await opened.locator('.offline').waitFor();
  await service.start();
  await opened.locator('.headline .status', { hasText: 'failed' }).waitFor();
  await opened.locator('.offline').waitFor({ state: 'detached' });
  await opened.waitForFunction((count) => document.querySelector('[data-testid=event-count]')?.textContent === String(count), job.head_seq);
  assert.deepEqual(opened.troubles, []);
});

test('with a token, the printed address opens the pages and nothing else does', async (context) => {
  const guarded = new Service();
  guarded.env = { SKILL_RUNNER_TOKEN: 't0ken-in-a-browser' };
  // Its own questions of the service need the token as well.
  guarded.get = async (route) => {
    const answer = await fetch(guarded.url + route, { headers: { authorization: 'Bearer t0ken-in-a-browser' } });
    if (!answer.ok) throw new Error(`${route}: ${answer.status}`);
    return answer.json();
  };
  await guarded.start();
  context.after(() => guarded.stop());
  const holder = await new ExampleClient(guarded).start(guarded.env);
  context.after(() => holder.stop());
  const opened = await page(started);
  const { origin } = new URL(holder.url);
  await opened.goto(`${origin}/`);
  await opened.getByText('open the address that').first().waitFor();
  await opened.goto(holder.url);
  await opened.getByRole('link', { name: 'Run Prime numbers' }).waitFor();
  assert.equal(opened.url(), `${origin}/`, 'the key is not left in the address');
  const seen = await opened.evaluate(async () => [document.documentElement.outerHTML, document.cookie, JSON.stringify({ ...localStorage, ...sessionStorage }), await (await fetch('/client')).text()].join('\n'));
  assert.equal(seen.includes('t0ken-in-a-browser') || seen.includes(new URL(holder.url).searchParams.get('key')), false);
  const evil = await page(started, { bypassCSP: true });
  await evil.goto(`${service.url}/ui`);
  const got = await evil.evaluate(async (address) => {
    const ways = [() => fetch(`${address}/v1/skills`), () => fetch(`${address}/v1/jobs`, { method: 'POST', mode: 'no-cors', body: '{"skill_id":"demo-echo","input":{"text":"x"}}' })];
    return Promise.all(ways.map((way) => way().then((answer) => answer.type, (error) => error.name)));
  }, origin);
  assert.deepEqual(got, ['TypeError', 'TypeError'], 'not even that there is an answer');
  assert.equal((await guarded.get('/v1/jobs')).jobs.length, 0, 'another page starts nothing');
  assert.deepEqual(opened.troubles, []);
});

const views = [['en-US', 'light', 1400, 900], ['zh-CN', 'dark', 390, 844], ['en-US', 'dark', 1400, 900], ['zh-CN', 'light', 390, 844]];
for (const [locale, colorScheme, width, height] of views.slice(0, process.env.UI_TEST_SHOTS ? 4 : 2)) {
  test(`axe finds no violation on any page of the example client, ${locale}, ${colorScheme}, ${width} wide`, async () => {
    const opened = await page(started, { locale, colorScheme, viewport: { width, height }, bypassCSP: true });
    await opened.goto(`${client.url}/skills/demo-echo/run`);
    await opened.locator('textarea, input.input').first().fill('hello');
    await opened.locator('form .button.main').click();
    await opened.waitForURL(/\/runs\//);
    await opened.locator('.headline a.main').click();
    await opened.locator('.tree').waitFor();
    const { id } = actions(opened);
    const pages = [['skills', '/'], ['one-off', '/one-off'], ['form', '/skills/demo-prime-number/run'], ['run', `/runs/${id}?seq=3`], ['result', `/runs/${id}/result`], ['recordings', '/recordings'], ['playback', `/recordings/${id}?step=2`], ['no-recording', '/recordings/nothing'], ['lost', '/nowhere']];
    const found = [];
    for (const [name, address] of pages) {
      await opened.goto(client.url + address);
      await opened.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' });
      await opened.waitForFunction(() => !document.querySelector('.hold, .empty[role="status"]'));
      await opened.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
      if (process.env.UI_TEST_SHOTS) {
        fs.mkdirSync(process.env.UI_TEST_SHOTS, { recursive: true });
        await opened.screenshot({ path: path.join(process.env.UI_TEST_SHOTS, `e2e-${name}-${width}-${colorScheme}.png`) });
      }
      const wide = await opened.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) found.push(`${name}: ${wide} px wider than the screen`);
      await opened.evaluate(axe);
      const { violations } = await opened.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
      for (const violation of violations) found.push(`${name}: ${violation.id}: ${violation.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
    }
    assert.deepEqual(found, []);
    assert.deepEqual(opened.troubles, []);
  });
}
