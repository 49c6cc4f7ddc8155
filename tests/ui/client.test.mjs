// The TypeScript client in a real browser: by fetch and by EventSource, while connections are cut.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { CuttingProxy } from '../../clients/typescript/test/cutting-proxy.mjs';
import { LONG, Service, browser, page } from './support.mjs';

const BUILT = process.env.UI_TEST_CLIENT;

/** Writes many events while it is followed. */
const TALKS = `cat >/dev/null
n=0
while [ $n -lt 120 ]; do n=$((n + 1)); echo "$((n % 100))% line $n of many, as long as a line of a log is" >&2; [ $((n % 20)) = 0 ] && sleep 0.1; done
echo '{"success":true,"data":{}}'
`;

test('a page follows runs by fetch and by EventSource without loss or double while connections are cut', { skip: !BUILT && 'UI_TEST_CLIENT is not set' }, async () => {
  const service = new Service();
  service.skill('talks', TALKS);
  await service.start();
  const proxy = await new CuttingProxy(service.url, 5).listen();
  const started = await browser();
  try {
    const opened = await page(started);
    // The built client, as if the service had it.
    await opened.context().route('**/ui/static/client/*', (route) => {
      const file = path.join(BUILT, path.basename(new URL(route.request().url()).pathname));
      return route.fulfill({ body: fs.readFileSync(file), contentType: 'text/javascript' });
    });
    await opened.goto(`${proxy.url}/ui`);
    await opened.evaluate(async () => { window.Client = (await import('/ui/static/client/index.js')).Client; });
    proxy.begin([3000, 20_000]);
    for (const way of ['follow', 'followWithEventSource']) {
      const { run, events } = await opened.evaluate(async ([how, most]) => {
        const client = new window.Client(location.origin, { retry: { attempts: 500, firstPause: 1, longestPause: 20 } });
        const { run_id: id } = await client.create('talks', { runtime_options: { no_cache: true } });
        const found = [];
        for await (const event of client[how](id, { signal: AbortSignal.timeout(most) })) found.push(event);
        return { run: id, events: found };
      }, [way, 5 * LONG]);
      const history = await service.get(`/v1/jobs/${run}/events/history`);
      assert.ok(history.events.length > 120, `${history.events.length}`);
      assert.deepEqual(events, history.events, way);
    }
    assert.ok(proxy.cuts > 5, `${proxy.cuts} cuts`);
    assert.deepEqual(opened.troubles, []);
  } finally {
    await started.close();
    proxy.close();
    await service.stop();
  }
});
