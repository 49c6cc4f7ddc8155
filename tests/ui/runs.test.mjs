// From the form to the result, a question and its answer, the way to the bytes and back, in both languages and by keyboard alone.
import assert from 'node:assert/strict';
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

test('a script skill goes from the form, with a file dropped on it, to its result, and every field leads to its bytes', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/skills`);
  await opened.getByRole('link', { name: 'Run Prime numbers' }).click();
  await opened.getByRole('heading', { name: 'Run Prime numbers' }).waitFor();
  const numbers = fs.readFileSync(path.join(service.folder, 'skills/demo-prime-number/assets/sample-numbers.txt'), 'utf8');
  const dropped = await opened.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], 'my numbers.txt', { type: 'text/plain' }));
    return transfer;
  }, numbers);
  await opened.dispatchEvent('.drop', 'drop', { dataTransfer: dropped });
  await opened.getByText('my numbers.txt', { exact: true }).waitFor();
  await opened.getByLabel('divisor').fill('three');
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.getByText('"three" is not of type "integer"').first().waitFor();
  assert.equal((await service.get('/v1/jobs')).jobs.length, 0, 'a refused form creates nothing');

  await opened.getByLabel('divisor').fill('3');
  assert.match(await opened.getByRole('tabpanel', { name: 'curl' }).innerText(), /-F 'input_file=@my numbers\.txt'/);
  await opened.getByRole('tab', { name: 'CLI' }).click();
  assert.match(await opened.getByRole('tabpanel', { name: 'cli' }).innerText(), /skill-runner run demo-prime-number .*--param divisor=3/);
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.waitForURL(/\/ui\/runs\//);
  await opened.getByRole('button', { name: 'Where did /data/count come from?' }).click();
  const origin = opened.locator('.origin');
  await origin.getByText('was written by the engine').waitFor();
  await origin.getByRole('button', { name: /^stdout/ }).click();
  await opened.waitForFunction(() => document.querySelector('.raw mark')?.textContent === '8');
  assert.match(opened.url(), /[?&]seq=\d+/);

  await opened.getByRole('button', { name: 'Preview' }).click();
  await opened.locator('.preview table').waitFor();
  await opened.getByRole('link', { name: 'Run with changes' }).click();
  await opened.getByText('The file of the earlier run is used: my numbers.txt').waitFor();
  assert.equal(await opened.getByLabel('divisor').inputValue(), '3');
  await opened.getByLabel('divisor').fill('5');
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.waitForURL(/\/ui\/runs\//);
  await opened.locator('.tree', { hasText: 'divisible: [5, 15, 100]' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('a field tells where it came from under the pointer and leads to its bytes by a click; the scrubber shows the run as it was', async () => {
  const job = await service.run('demo-echo', { input: { text: 'where from' } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  const field = opened.locator('.tree .from').last();
  await field.hover();
  await opened.locator('.origin', { hasText: 'was written by the engine' }).waitFor();
  assert.doesNotMatch(opened.url(), /seq=/, 'looking changes nothing');
  await field.click();
  await opened.locator('.raw mark').waitFor();
  assert.match(opened.url(), /seq=/);
  await opened.locator('.detail .h-key').first().waitFor();

  await opened.getByRole('slider').fill('3');
  await opened.getByText('The page shows the run as it was after event 3.').waitFor();
  assert.match(opened.url(), /[?&]at=3/);
  await opened.waitForFunction(() => document.querySelector('[data-testid=event-count]').textContent === '3');
  const other = await page(started);
  await other.goto(opened.url());
  await other.getByText('The page shows the run as it was after event 3.').waitFor();
  await opened.getByRole('button', { name: 'Back to now' }).click();
  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  assert.deepEqual([...opened.troubles, ...other.troubles], []);
});

test('raw output is searched: what is loaded while it is written, the rest of a long stream when it is asked for', async () => {
  service.skill('long', 'cat > /dev/null\necho "a needle at the begin" >&2\nseq 1 40000 >&2\necho "the end" >&2\necho \'{"success":true,"data":{}}\'\n');
  const job = await service.run('long');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}?stream=stderr`);
  await opened.locator('.raw .line', { hasText: 'the end' }).waitFor();
  const search = opened.getByRole('searchbox', { name: 'Search loaded lines' });
  await search.fill('39999');
  await opened.locator('.raw', { hasText: '1 lines match' }).waitFor();
  await search.fill('NEEDLE');
  await opened.locator('.raw', { hasText: '0 lines match' }).waitFor();
  await opened.getByRole('button', { name: 'Search the rest' }).click();
  await opened.locator('.raw .line', { hasText: 'a needle at the begin' }).waitFor();
  await search.fill('nowhere');
  await search.press('Enter');
  await opened.getByText('Not found in the rest').waitFor();
  await opened.getByRole('tab', { name: 'both' }).click();
  await opened.locator('.raw .line').first().waitFor();
  await search.fill('success');
  await opened.waitForFunction(() => document.querySelectorAll('.raw .line').length === 1);
  assert.deepEqual(opened.troubles, []);
});

test('an event leads to its bytes, a line leads to its event, and the address keeps the place', async () => {
  const job = await service.run('demo-progress');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  const progress = events.filter((event) => event.type === 'run.progress')[1];
  await opened.locator(`#event-${progress.seq}`).click();
  const marked = await opened.waitForFunction(() => document.querySelector('.raw mark')?.textContent);
  const range = await service.get(`/v1/jobs/${job.request_id}/logs/range?stream=stderr&byte_from=${progress.raw_ref.byte_from}&byte_to=${progress.raw_ref.byte_to}`);
  assert.equal(await marked.jsonValue(), range.content.trimEnd());
  const other = events.filter((event) => event.type === 'run.progress')[0];
  await opened.getByRole('button', { name: `Event of the line at byte ${other.raw_ref.byte_from}`, exact: true }).click();
  await opened.locator(`#event-${other.seq}[aria-selected="true"]`).waitFor();
  await opened.reload();
  await opened.locator(`#event-${other.seq}[aria-selected="true"]`).waitFor();

  await opened.getByLabel('Filter by type').selectOption('run.progress');
  await opened.waitForFunction((count) => document.querySelectorAll('.vrow').length === count, events.filter((event) => event.type === 'run.progress').length);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}?at=4`);
  await opened.getByText('The page shows the run as it was after event 4.').waitFor();
  await opened.locator('.headline .status', { hasText: 'running' }).waitFor();
  await opened.waitForFunction(() => document.querySelector('[data-testid=event-count]').textContent === '4');
  assert.deepEqual(opened.troubles, []);
});

test('an answer that comes late does not replace the bytes of the event that was chosen meanwhile', async () => {
  const job = await service.run('demo-progress', { runtime_options: { no_cache: true } });
  const opened = await page(started);
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await opened.route(/logs\/range\?stream=stdout/, async (route) => { await released; await route.continue(); });
  const asked = opened.waitForRequest(/logs\/range\?stream=stdout/);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await asked;
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  const progress = events.filter((event) => event.type === 'run.progress')[1];
  await opened.locator(`#event-${progress.seq}`).click();
  const text = '40% step 2 of 5';
  await opened.waitForFunction((wanted) => document.querySelector('.raw mark')?.textContent === wanted, text);
  const last = opened.waitForResponse((answer) => /logs\/range\?stream=stdout/.test(answer.url()) && !/byte_to=0$/.test(answer.url()));
  release();
  await (await last).finished();
  // The page has worked on the answer when it has drawn twice.
  await opened.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
  assert.equal(await opened.locator('.raw mark').innerText(), text);
  await opened.getByRole('tab', { name: 'stdout' }).click();
  await opened.locator('.raw .line', { hasText: '"data": {"step' }).waitFor();
  assert.equal(await opened.locator('.raw mark').count(), 0);
  assert.deepEqual(opened.troubles, []);
});

test('a question is seen at home, answered on the page of its run, and the run goes on', async () => {
  const ask = '<ASK_USER_YAML>\nkind: choose_one\nprompt: Which format do you want?\noptions:\n  - label: Markdown\n    value: md\n  - HTML\ndefault_decision_policy: take Markdown\n</ASK_USER_YAML>';
  service.codexSays(
    [{ type: 'reasoning', text: 'I should ask first.' }, { type: 'command_execution', command: 'ls', aggregated_output: 'a\nb\n', exit_code: 0, status: 'completed' }, { type: 'agent_message', text: `I have **one** question.\n\n${ask}` }],
    [{ type: 'agent_message', text: '{"name": "Ann", "colour": "green"}\n__SKILL_DONE__' }],
  );
  const job = await service.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive', interactive_auto_reply: true, interactive_reply_timeout_sec: 600 } });
  assert.equal(job.status, 'waiting_user');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui`);
  await opened.getByText('1 waiting for an answer').waitFor();
  await opened.locator('.need.waiting').getByRole('link', { name: 'demo-interview' }).click();
  await opened.getByRole('radio', { name: 'HTML' }).check();
  await opened.locator('.reply', { hasText: /waits until .* \(\d+:\d\d\)/ }).waitFor();
  await opened.getByRole('button', { name: 'Send' }).click();
  await opened.locator('.said.answer', { hasText: 'HTML' }).waitFor();
  assert.equal(await opened.locator('.said.message').first().locator('.grow').innerText(), 'I have one question.', 'the form of a question is not shown');
  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  await opened.locator('.tree', { hasText: 'colour: "green"' }).waitFor();
  assert.equal(await opened.locator('.reply').count(), 0, 'no question is open');
  assert.equal(await opened.locator('.said.command code').first().innerText(), '$ ls');
  assert.match(await opened.locator('.said.usage').first().innerText(), /Used: 1\.3k tok/);
  await opened.goto(`${service.url}/ui`);
  await opened.locator('.lastday', { hasText: /\d runs in the last day.*\dk tok/ }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('a failed run opens with its cause, the event that decided it and the bytes of each violation', async () => {
  const job = await service.run('demo-fail-schema');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  const why = opened.getByRole('region', { name: 'Why it failed' });
  await why.getByText('the output breaks its schema').waitFor();
  await why.locator('mark', { hasText: '"three"' }).last().waitFor();
  await why.getByRole('button', { name: /stdout 53–60/ }).click();
  await opened.waitForFunction(() => document.querySelector('.raw mark')?.textContent === '"three"');
  assert.deepEqual(opened.troubles, []);
});

test('a run is canceled, run again and deleted from its page', async () => {
  const job = await service.post('/v1/jobs', { skill_id: 'demo-hang' });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.getByRole('button', { name: 'Cancel' }).click();
  await opened.locator('.headline .status', { hasText: 'canceled' }).waitFor();
  await opened.getByRole('button', { name: 'Rerun' }).click();
  await opened.waitForFunction((id) => !location.pathname.includes(id), job.request_id);
  await opened.getByRole('button', { name: 'Cancel' }).click();
  await opened.locator('.headline .status', { hasText: 'canceled' }).waitFor();
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.getByRole('button', { name: 'Delete' }).click();
  await opened.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await opened.waitForURL(/\/ui$/);
  assert.equal((await fetch(`${service.url}/v1/jobs/${job.request_id}`)).status, 404);
  assert.deepEqual(opened.troubles, []);
});

test('the page of a run tells what holds it: its isolation, its limits and its priority, in both languages', async () => {
  service.skill('asks', 'cat >/dev/null; echo \'{"success":true,"data":{}}\'', { runner: { automation: { fs_scope: 'galaxy' } } });
  const job = await service.run('asks', { priority: 3 });
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  const { isolation, limits } = events.find((event) => event.type === 'turn.started').data;
  const texts = {
    'en-US': { title: 'Isolation and limits', tier: isolation.tier === 'sandbox' ? 'in the sandbox' : 'not confined', priority: 'Priority 3', memory: 'Memory', processes: 'Processes', asked: 'asked for, not enforced' },
    'zh-CN': { title: '隔离与限制', tier: isolation.tier === 'sandbox' ? '在沙箱中' : '未受限制', priority: '优先级 3', memory: '内存', processes: '进程数', asked: '已要求但未强制执行' },
  };
  for (const [locale, text] of Object.entries(texts)) {
    const opened = await page(started, { locale });
    await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
    const bounds = opened.locator('.bounds');
    assert.equal((await bounds.locator('summary').innerText()).replaceAll(/\s+/g, ' ').trim(), `${text.title}: ${text.tier} · ${text.priority} ${text.asked}`);
    await bounds.locator('summary').click();
    const fact = (name) => bounds.locator('dt', { hasText: name }).locator('xpath=following-sibling::dd[1]').first();
    await fact(text.memory).waitFor();
    assert.equal(await fact(text.memory).innerText(), `${(limits.memory_bytes / 2 ** 30).toFixed(1)} GiB`);
    assert.equal(await fact(text.processes).innerText(), limits.processes.toLocaleString(locale));
    assert.match(await fact(text.asked).innerText(), /^automation\.fs_scope: a value that is not known is not enforced/);
    assert.ok((await bounds.innerText()).includes(isolation.parts.join(', ')));
    assert.deepEqual(opened.troubles, []);
  }
});

test('home tells what failed and which engine needs a log-in, and keeps filters and pages in the address', async () => {
  await service.run('demo-fail-exit');
  for (let count = 0; count < 26; count += 1) await service.post('/v1/jobs', { skill_id: 'demo-echo', input: { text: 'again and again' }, labels: { team: 'many' } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui`);
  await opened.locator('.need.failed').getByText('the script exited with status 7').first().waitFor();
  await opened.getByRole('link', { name: 'Engines that need a log-in: 1' }).waitFor();
  await opened.getByLabel('Any status').selectOption('failed');
  await opened.waitForFunction(() => location.search.includes('status=failed') && [...document.querySelectorAll('.runs tbody .status')].every((status) => status.classList.contains('failed')));
  await opened.reload();
  await opened.waitForFunction(() => document.querySelector('.filters select')?.value === 'failed');
  await opened.goto(`${service.url}/ui?label=team:many`);
  await opened.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 25);
  await opened.getByRole('link', { name: 'Older' }).click();
  await opened.waitForFunction(() => location.search.includes('before=') && document.querySelectorAll('.runs tbody tr').length === 1);
  await opened.getByRole('link', { name: 'Newest' }).click();
  await opened.waitForFunction(() => !location.search.includes('before=') && document.querySelectorAll('.runs tbody tr').length === 25);
  assert.deepEqual(opened.troubles, []);
});

test('a form has choices, switches, defaults, objects and lists of objects, and sends what they say', async () => {
  const properties = { size: { enum: ['small', 'large'] }, loud: { type: 'boolean' }, times: { type: 'integer', default: 3 }, place: { type: 'object', properties: { street: { type: 'string', maxLength: 40 } } }, people: { type: 'array', items: { type: 'object', required: ['name'], properties: { name: { type: 'string', maxLength: 20 } } } } };
  for (const field of Object.values(properties)) field['x-input-source'] = 'inline';
  service.skill('nested', 'read -r line\nprintf \'{"success":true,"data":{"got":%s}}\\n\' "$line"\n', { input: { type: 'object', required: ['size'], properties } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/skills/nested/run`);
  await opened.getByLabel('size').selectOption('large');
  await opened.getByLabel('loud').check();
  assert.equal(await opened.getByLabel('times').inputValue(), '3', 'what the schema gives');
  await opened.getByLabel('street').fill('High Street');
  const people = opened.getByRole('group', { name: 'people' });
  await people.getByRole('button', { name: 'Add' }).click();
  await people.getByRole('button', { name: 'Add' }).click();
  await people.getByLabel('name').first().fill('Ann');
  await people.getByLabel('name').last().fill('Bob');
  await people.getByRole('button', { name: 'Remove item 1' }).click();
  await opened.getByRole('button', { name: 'Run', exact: true }).click();
  await opened.waitForURL(/\/ui\/runs\//);
  await opened.locator('.tree', { hasText: 'Bob' }).waitFor();
  const result = await service.get(`/v1/jobs/${/runs\/([^?]+)/.exec(opened.url())[1]}/result`);
  assert.deepEqual(result.result.data.got.params, { size: 'large', loud: true, times: 3, place: { street: 'High Street' }, people: [{ name: 'Bob' }] });
  assert.deepEqual(opened.troubles, []);
});

test('a run shows the files of its folder, why its result was or was not taken from the cache, and what can be downloaded', async () => {
  const first = await service.run('demo-echo', { input: { text: 'in the cache' } });
  const second = await service.run('demo-echo', { input: { text: 'in the cache' } });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${first.request_id}`);
  await opened.getByText('Files of the run').click();
  await opened.getByRole('button', { name: 'result/result.json' }).click();
  await opened.locator('.fold pre', { hasText: 'in the cache' }).waitFor();
  for (const [name, type] of [['Bundle', 'application/zip'], ['Export', 'application/zip']]) {
    const address = await opened.getByRole('link', { name, exact: true }).getAttribute('href');
    const answer = await fetch(service.url + address);
    assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, type], name);
    await answer.arrayBuffer();
  }
  await opened.goto(`${service.url}/ui/runs/${second.request_id}`);
  await opened.locator('.facts-line .tag', { hasText: 'from the cache' }).waitFor();
  await opened.locator('summary', { hasText: 'Cache' }).click();
  await opened.locator('.fold .tag', { hasText: 'hit' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('a browser that asks for Chinese gets Chinese', async () => {
  const opened = await page(started, { locale: 'zh-CN' });
  await opened.goto(`${service.url}/ui/skills`);
  await opened.getByRole('link', { name: '技能' }).waitFor();
  assert.equal(await opened.evaluate(() => document.documentElement.lang), 'zh-CN');
  await opened.getByRole('link', { name: '引擎' }).click();
  await opened.getByRole('heading', { level: 1, name: '引擎' }).waitFor();
  assert.deepEqual(opened.troubles, []);
});

test('the way from home to a result needs nothing but the keyboard', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui`);
  await opened.getByRole('heading', { level: 1 }).waitFor();
  await opened.keyboard.press('g');
  await opened.keyboard.press('s');
  await opened.waitForURL(/\/ui\/skills$/);
  await opened.getByRole('link', { name: 'Run Echo' }).waitFor();
  await opened.keyboard.press('/');
  await opened.keyboard.type('demo-echo');
  await opened.waitForFunction(() => document.querySelectorAll('.tile').length === 1);
  await tabTo(opened, 'Run Echo');
  await opened.keyboard.press('Enter');
  await opened.getByLabel('text').waitFor();
  await tabTo(opened, 'text');
  await opened.keyboard.type('by keyboard');
  await opened.keyboard.press('Control+Enter');
  await opened.waitForURL(/\/ui\/runs\//);
  await opened.locator('.tree', { hasText: 'by keyboard' }).waitFor();
  await tabTo(opened, 'Events', 'listbox');
  await opened.keyboard.press('Home');
  await opened.locator('#event-1[aria-selected="true"]').waitFor();
  await opened.keyboard.press('ArrowDown');
  await opened.locator('#event-2[aria-selected="true"]').waitFor();
  await opened.keyboard.press('?');
  await opened.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await opened.keyboard.press('Escape');
  await opened.getByRole('dialog', { name: 'Keyboard' }).waitFor({ state: 'hidden' });
  assert.deepEqual(opened.troubles, []);
});

/** Presses Tab until what has the focus has this name; every stop on the way must be seen to have the focus. */
async function tabTo(opened, name, role) {
  for (let step = 0; step < 80; step += 1) {
    await opened.keyboard.press('Tab');
    const found = await opened.evaluate(([wanted, wantedRole]) => {
      const now = document.activeElement;
      const named = now.getAttribute('aria-label') ?? (now.labels?.[0]?.firstChild?.textContent ?? now.textContent ?? '').trim();
      const outline = getComputedStyle(now).outlineStyle !== 'none' || now === document.body;
      return { here: named === wanted && (!wantedRole || now.getAttribute('role') === wantedRole), outline, named };
    }, [name, role]);
    assert.ok(found.outline, `the focus on ${found.named} cannot be seen`);
    if (found.here) return;
  }
  assert.fail(`Tab does not reach ${name}`);
}
