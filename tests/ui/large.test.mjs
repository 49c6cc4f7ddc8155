// A run of 100 000 events: its page is usable soon, scrolls smoothly and stays small.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Service, browser, page } from './support.mjs';

const EVENTS = 100_000;
let service;
let started;
before(async () => {
  service = new Service();
  service.skill('long', `cat > /dev/null\nseq 1 ${EVENTS} | sed 's/.*/50% line &/' >&2\necho '{"success":true,"action":"run","data":{"done":true}}'\n`);
  await service.start();
  started = await browser();
});
after(async () => {
  await started?.close();
  await service?.stop();
});

test('the page of a run with 100 000 events is usable soon, scrolls anywhere and stays small', async () => {
  const job = await service.run('long');
  assert.equal(job.status, 'succeeded', JSON.stringify(job.error));
  assert.ok(job.head_seq > EVENTS, `${job.head_seq} events`);
  const opened = await page(started);
  const begin = Date.now();
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.vrow .etype', { hasText: 'conversation.completed' }).waitFor();
  const interactive = Date.now() - begin;
  const frames = await opened.evaluate(async () => {
    const list = document.querySelector('.vlist');
    const times = [];
    let last = performance.now();
    for (let step = 0; step < 120; step += 1) {
      list.scrollTop = (list.scrollHeight / 120) * step;
      await new Promise((resolve) => { requestAnimationFrame(resolve); });
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((one, other) => one - other);
  });
  await opened.locator('.vlist').focus();
  await opened.keyboard.press('Home');
  await opened.locator('#event-1 .etype').waitFor();
  await opened.keyboard.press('End');
  await opened.locator(`#event-${job.head_seq} .etype`).waitFor();
  await opened.goto(`${service.url}/ui/runs/${job.request_id}?seq=50000`);
  await opened.locator('#event-50000[aria-selected="true"] .etype').waitFor();
  await opened.waitForFunction(() => /^50% line \d+$/.test(document.querySelector('.raw mark')?.textContent ?? ''));
  const memory = await opened.evaluate(() => { window.gc(); return performance.memory.usedJSHeapSize; });
  const elements = await opened.evaluate(() => document.querySelectorAll('*').length);
  const [median, worst] = [frames[Math.floor(frames.length / 2)], frames[frames.length - 1]];
  console.log(`100 000 events: usable after ${interactive} ms; frames while scrolling ${median.toFixed(1)} ms at the median, ${worst.toFixed(0)} ms at worst; ${(memory / 1024 / 1024).toFixed(1)} MiB of heap, ${elements} elements`);
  assert.ok(memory < 100 * 1024 * 1024, `${memory} bytes of heap`);
  assert.ok(elements < 8000, `${elements} elements`);
  assert.ok(interactive < 30_000, `usable after ${interactive} ms`);
  await opened.getByLabel('Filter by type').selectOption('turn.started');
  await opened.locator('.vrow .etype', { hasText: 'turn.started' }).waitFor();
  assert.equal(await opened.locator('.vrow').count(), 1);
  assert.deepEqual(opened.troubles, []);
});
