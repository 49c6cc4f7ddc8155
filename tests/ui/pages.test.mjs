// Every page, light and dark, wide and narrow: no violation of accessibility rules, nothing wider than the screen. UI_TEST_SHOTS
// names a folder for pictures of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Service, axe, browser, page } from './support.mjs';

let service;
let started;
/** @type {[string, string][]} */
const pages = [];
before(async () => {
  service = await new Service().start();
  started = await browser();
  service.codexSays([{ type: 'reasoning', text: 'The file has two columns.\nI should ask.' }, { type: 'command_execution', command: 'python3 parse.py invoices.csv', aggregated_output: '\u001b[32m12 rows\u001b[0m\n', exit_code: 0, status: 'completed' }, { type: 'command_execution', command: 'python3 total.py', aggregated_output: 'Traceback: no column net\n', exit_code: 1, status: 'failed' },
    { type: 'agent_message', text: 'The invoice has **two totals**:\n\n| kind | sum |\n| --- | --- |\n| net | 10.00 |\n| gross | 12.50 |\n\n<ASK_USER_YAML>\nkind: choose_one\nprompt: Which total do you want?\noptions: [net, gross]\ndefault_decision_policy: take gross\n</ASK_USER_YAML>' }]);
  const waiting = await service.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive', interactive_auto_reply: true } });
  const failed = await service.run('demo-fail-schema', { labels: { team: 'billing' } });
  await service.run('demo-fail-exit');
  const echo = await service.run('demo-echo', { input: { text: 'hello' } });
  const awaiting = await service.post('/v1/jobs', { skill_id: 'demo-prime-number' });
  pages.push(['home', '/ui'], ['home-filtered', '/ui?status=canceled'], ['skills', '/ui/skills'], ['skill', '/ui/skills/demo-prime-number'], ['form', '/ui/skills/demo-prime-number/run'], ['form-again', `/ui/skills/demo-echo/run?from=${echo.request_id}`],
    ['run', `/ui/runs/${echo.request_id}?seq=5`], ['run-failed', `/ui/runs/${failed.request_id}?seq=4`], ['run-waiting', `/ui/runs/${waiting.request_id}`], ['run-awaiting', `/ui/runs/${awaiting.request_id}`], ['run-past', `/ui/runs/${failed.request_id}?at=4`],
    ['run-unknown', '/ui/runs/nothing'], ['engines', '/ui/engines'], ['audit', '/ui/audit'], ['system', '/ui/system'], ['components', '/ui/components'], ['lost', '/ui/nowhere'], ['docs', '/docs']);
});
after(async () => {
  await started?.close();
  await service?.stop();
});

// Both colours and both widths are among the first two; all four are looked at in pictures.
const views = [['light', 1400, 900], ['dark', 390, 844], ['dark', 1400, 900], ['light', 390, 844]];
for (const [colorScheme, width, height] of views.slice(0, process.env.UI_TEST_SHOTS ? 4 : 2)) {
  test(`axe finds no violation on any page, ${colorScheme}, ${width} wide`, async () => {
    const opened = await page(started, { colorScheme, viewport: { width, height }, bypassCSP: true });
    const shots = process.env.UI_TEST_SHOTS;
    const found = [];
    for (const [name, address] of pages) {
      await opened.goto(service.url + address);
      await opened.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' });
      await opened.waitForFunction(() => !document.querySelector('.hold, .empty[role="status"]'));
      if (name.startsWith('run') && name !== 'run-unknown') await opened.locator('.live:not(.is-loading)').waitFor();
      await opened.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
      if (shots) {
        fs.mkdirSync(shots, { recursive: true });
        await opened.screenshot({ path: path.join(shots, `${name}-${width}-${colorScheme}.png`) });
        if (width < 700 || name === 'skill') await opened.screenshot({ path: path.join(shots, `${name}-${width}-${colorScheme}-whole.png`), fullPage: true });
      }
      const wide = await opened.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) found.push(`${name}: ${wide} px wider than the screen`);
      await opened.evaluate(axe);
      // The reference has hundreds of equal parts: the first of each kind is looked at.
      const context = name === 'docs' ? { exclude: [['[aria-label^="Operations"] ~ [aria-label^="Operations"]'], ['.card ~ .card']] } : {};
      const { violations } = await opened.evaluate((looked) => window.axe.run(looked.exclude ? looked : document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }), context);
      for (const violation of violations) found.push(`${name}: ${violation.id}: ${violation.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
    }
    assert.deepEqual(found, []);
    assert.deepEqual(opened.troubles, []);
  });
}
