// The service is killed and started again under an open page.
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

const ASK = [{ type: 'agent_message', text: 'What is your **name**?' }];

test('a page whose service is killed and started again shows every event once, and the run goes on from it', async () => {
  service.codexSays(ASK, [{ type: 'agent_message', text: '{"name": "Ann", "colour": "red"}\n__SKILL_DONE__' }]);
  const job = await service.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive' } });
  const opened = await page(started);
  // Every event that the page receives, whichever way.
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.live.is-live').waitFor();
  for (let round = 0; round < 2; round += 1) {
    await service.kill();
    await opened.locator('.live.is-lost').waitFor();
    await service.start();
    await opened.locator('.live.is-live').waitFor();
  }
  await opened.locator('.said.recovered').waitFor();
  const watched = await page(started);
  await watched.goto(`${service.url}/ui/system`);
  await watched.locator('.card', { hasText: 'Recovered runs (1)' }).getByRole('link', { name: 'demo-interview' }).waitFor();
  assert.equal((await watched.locator('main').innerText()).includes('[object'), false, 'every limit is told');
  await watched.close();
  await opened.locator('.reply textarea').fill('Ann');
  await opened.locator('.reply').getByRole('button', { name: 'Send' }).click();
  await opened.locator('.headline .status', { hasText: 'succeeded' }).waitFor();
  await opened.locator('.live.is-ended').waitFor();
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  await opened.waitForFunction((count) => document.querySelector('[data-testid="event-count"]').textContent === String(count), events.length);
  // All rows of the list, from the first to the last.
  const seen = await opened.evaluate(async () => {
    const list = document.querySelector('.vlist');
    const rows = new Map();
    for (let top = 0; top <= list.scrollHeight; top += 100) {
      list.scrollTop = top;
      await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
      for (const row of list.querySelectorAll('.vrow')) rows.set(row.id, [Number(row.querySelector('.seq').textContent), row.querySelector('.etype')?.textContent]);
    }
    return [...rows.values()].sort((one, other) => one[0] - other[0]);
  });
  assert.deepEqual(seen, events.map((event) => [event.seq, event.type]));
  const said = await opened.locator('.said .to').allInnerTexts();
  assert.equal(new Set(said).size, said.length, `said twice: ${said}`);
  assert.deepEqual(opened.troubles, []);
});

test('events that come while a page follows are each shown once, however fast they come and whenever the connection is cut', async () => {
  service.skill('steady', 'cat > /dev/null\nfor i in $(seq 1 400); do echo "$((i / 4))% line $i" >&2; done\nmkfifo gate\nread line < gate\nfor i in $(seq 1 100); do echo "100% end $i" >&2; done\necho \'{"success":true,"action":"run","data":{}}\'\n');
  const job = await service.post('/v1/jobs', { skill_id: 'steady' });
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.live.is-live').waitFor();
  await opened.context().setOffline(true);
  await opened.context().setOffline(false);
  const gate = path.join(service.folder, 'data/runs', job.run_id, 'gate');
  await service.until(async () => fs.existsSync(gate), (there) => there);
  fs.writeFileSync(gate, 'go\n');
  await opened.locator('.live.is-ended').waitFor();
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  assert.ok(events.length > 500, `${events.length} events`);
  await opened.waitForFunction((count) => document.querySelector('[data-testid="event-count"]').textContent === String(count), events.length);
  assert.equal(await opened.locator('.said.progress').last().innerText().then((text) => text.replace(/\s+/g, ' ').trim().startsWith('100% end 100')), true);
  assert.deepEqual(opened.troubles, []);
});
