// A skill and an engine that write HTML and script wherever they can inject nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Service, browser, page } from './support.mjs';

const HTML = '<img src=x onerror="window.hit=1"><script>window.hit=2</script><iframe srcdoc="<script>parent.hit=3</script>"></iframe><svg onload="window.hit=4"></svg><form action=//evil.example><input name=x></form>';
const MARKDOWN = `# Title ${HTML}\n\n[link](javascript:window.hit=5) [data](data:text/html,<script>window.hit=6</script>) ![image](https://evil.example/x.png)\n\n<a href="javascript:window.hit=7" onclick="window.hit=8">a</a> <style>*{display:none}</style> <base href="//evil.example">\n\n\`\`\`html\n${HTML}\n\`\`\``;
const ESC = '\\033';

// Each is coloured, as a source, in half a minute or longer.
const LINKS = '[a]('.repeat(5000);
const SETTINGS = 'a'.repeat(90_000);

let service;
let started;
before(async () => {
  service = new Service();
  const quoted = HTML.replaceAll('"', '\\"');
  service.skill('hostile', `cat > /dev/null
printf '50%% ${HTML}\\n' >&2
printf '${ESC}[31m${HTML}${ESC}[0m ${ESC}]8;;javascript:window.hit=9${ESC}\\\\link${ESC}]8;;${ESC}\\\\ ${ESC}]0;title${ESC}\\\\ ${ESC}[2J${ESC}[?1049h\\n' >&2
mkdir -p artifacts
printf '%s' "$(cat scripts.md 2>/dev/null)" > 'artifacts/<img src=x onerror=window.hit=10>.txt'
cat > artifacts/report.md <<'MARK'
${MARKDOWN}
MARK
printf '%s' '{"success":true,"action":"run","data":{"<img src=x onerror=window.hit=11>":"${quoted}"},"message":"x"}'
`, { readme: MARKDOWN, description: `Bad ${HTML.replaceAll('"', "'")}`, input: { type: 'object', properties: { text: { type: 'string', title: '<b onclick="window.hit=12">x</b>', description: HTML } } }, runner: { name: `<img src=x onerror=window.hit=13>`, artifacts: [{ pattern: '*.md', role: '<i>', mime: 'text/markdown' }, { pattern: '*.txt', role: 'x', mime: 'text/html' }] } });
  await service.start();
  started = await browser();
});
after(async () => {
  await started?.close();
  await service?.stop();
});

/** What no text of a skill may bring into a page. */
async function clean(opened) {
  const found = await opened.evaluate(() => ({
    hit: window.hit ?? null,
    elements: [...document.querySelectorAll('main img, main script, main iframe, main svg[onload], main form[action], main style, main base, main [onerror], main [onclick], main a[href^="javascript:"], main a[href^="data:"]')].map((element) => element.outerHTML.slice(0, 200)),
    foreign: performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith(location.origin)),
  }));
  assert.deepEqual(found, { hit: null, elements: [], foreign: [] });
  assert.deepEqual(opened.troubles, []);
}

test('the page and the form of a hostile skill are text', async () => {
  const opened = await page(started);
  for (const address of ['/ui/skills', '/ui/skills/hostile', '/ui/skills/hostile/run']) {
    await opened.goto(service.url + address);
    await opened.getByText('onerror=').first().waitFor();
    await clean(opened);
  }
  // Sources with coloured words are text, too, whatever language their name promises.
  await opened.goto(`${service.url}/ui/skills/hostile`);
  for (const file of ['SKILL.md', 'assets/input.schema.json', 'scripts/run.sh']) {
    await opened.getByRole('button', { name: file, exact: true }).click();
    await opened.locator('.filelist pre [class^="h-"]').first().waitFor();
    assert.match(await opened.locator('.filelist pre').innerText(), /<img src=x onerror=/);
    await clean(opened);
  }
});

test('output, progress, file names, Markdown and terminal sequences of a hostile run are text', async () => {
  const job = await service.run('hostile');
  assert.equal(job.status, 'succeeded', JSON.stringify(job.error));
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.tree', { hasText: 'onerror' }).waitFor();
  await clean(opened);
  for (const button of await opened.getByRole('button', { name: 'Preview' }).all()) {
    await button.click();
    await opened.locator('.artifact pre, .artifact .preview, .artifact .empty').first().waitFor();
    await clean(opened);
  }
  await opened.getByRole('tab', { name: 'stderr' }).click();
  await opened.locator('.raw .a-red', { hasText: '<script>' }).waitFor();
  const shown = await opened.locator('.raw').innerText();
  // eslint-disable-next-line no-control-regex
  assert.doesNotMatch(shown, /[\x00-\x08\x0b-\x1f\x7f]/, 'no control character is left');
  assert.doesNotMatch(shown, /javascript:window\.hit=9/, 'the address of a terminal link is not shown');
  const { events } = await service.get(`/v1/jobs/${job.request_id}/events/history`);
  for (const event of events) {
    await opened.locator('.vlist').focus();
    await opened.keyboard.press('Home');
    for (let step = 1; step < event.seq; step += 1) await opened.keyboard.press('ArrowDown');
    await opened.locator(`#event-${event.seq}[aria-selected="true"]`).waitFor();
  }
  await clean(opened);
  await opened.locator('.fold summary').first().click();
  await opened.locator('.fold li').first().waitFor();
  await clean(opened);
});

test('messages, tools and questions of a hostile engine are text', async () => {
  service.codexSays([{ type: 'reasoning', text: MARKDOWN }, { type: 'command_execution', command: HTML, aggregated_output: `\u001b[1m${HTML}`, exit_code: 1, status: 'failed' }, { type: 'agent_message', text: MARKDOWN },
    { type: 'agent_message', text: `<ASK_USER_YAML>\nkind: choose_one\nprompt: ${JSON.stringify(HTML)}\noptions:\n  - ${JSON.stringify(HTML)}\n</ASK_USER_YAML>` }]);
  const job = await service.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive' } });
  assert.equal(job.status, 'waiting_user');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.said.message').first().waitFor();
  await opened.locator('.reply label', { hasText: 'onerror' }).waitFor();
  for (const summary of await opened.locator('.said summary').all()) await summary.click();
  await clean(opened);
  await opened.goto(`${service.url}/ui`);
  await opened.locator('.need').first().waitFor();
  await clean(opened);
});

test('messages that take minutes or endless stack to read as Markdown are shown as text, and the page goes on', async () => {
  const nested = Array.from({ length: 380 }, (_, depth) => `${' '.repeat(depth * 2)}- a`).join('\n');
  const messages = ['_'.repeat(150_000), '>'.repeat(150_000), '> '.repeat(1900), nested, '**bold** words'];
  service.codexSays([...messages.map((text) => ({ type: 'agent_message', text })), { type: 'agent_message', text: '<ASK_USER_YAML>\nkind: open_text\nprompt: "Who?"\n</ASK_USER_YAML>' }]);
  const job = await service.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive' } });
  assert.equal(job.status, 'waiting_user');
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  await opened.locator('.said.message strong', { hasText: 'bold' }).waitFor();
  assert.ok(await opened.locator('.said.message pre').count() >= 2);
  await opened.locator('.reply', { hasText: 'Who?' }).waitFor();
  // What was read late has not moved the end out of sight.
  await opened.waitForFunction(() => { const talk = document.querySelector('.talk'); return talk.scrollTop + talk.clientHeight >= talk.scrollHeight - 40; });
  await clean(opened);
});

test('sources and Markdown that take minutes to read are shown as text, and the page goes on meanwhile', async () => {
  service.skill('slow', `cat > /dev/null
mkdir -p artifacts
head -c ${SETTINGS.length} /dev/zero | tr '\\0' a > artifacts/slow.ini
cp "$(find . -name SKILL.md | head -n 1)" artifacts/slow.md
printf '%s' '{"success":true,"action":"run","data":{},"message":"x"}'
`, { readme: LINKS, runner: { artifacts: [{ pattern: '*.md', role: 'x', mime: 'text/markdown' }, { pattern: '*.ini', role: 'x', mime: 'text/plain' }] } });
  const job = await service.run('slow');
  assert.equal(job.status, 'succeeded', JSON.stringify(job.error));
  const opened = await page(started);
  const soon = { timeout: 10_000 };
  await opened.goto(`${service.url}/ui/skills/slow`);
  await opened.locator('.md', { hasText: LINKS.slice(0, 400) }).waitFor(soon);
  const source = opened.locator('.filelist pre');
  await opened.getByRole('button', { name: 'SKILL.md', exact: true }).click();
  await source.filter({ hasText: '[a]([a](' }).waitFor(soon);
  // A click is answered while the text is read, and the text after it has its colours.
  await opened.getByRole('button', { name: 'scripts/run.sh', exact: true }).click(soon);
  await source.filter({ hasText: 'cat > /dev/null' }).waitFor(soon);
  await source.locator('[class^="h-"]').first().waitFor();
  await clean(opened);
  await opened.goto(`${service.url}/ui/runs/${job.request_id}`);
  for (const [name, shown, text] of [['slow.md', '.preview .md', LINKS.slice(0, 400)], ['slow.ini', 'pre', SETTINGS]]) {
    const button = opened.locator('.artifact', { hasText: name }).getByRole('button', { name: 'Preview' });
    await button.click(soon);
    await opened.locator(`.artifact ${shown}`, { hasText: text }).waitFor(soon);
    // It draws, too.
    await opened.evaluate(() => new Promise(requestAnimationFrame));
    await button.click(soon);
    await opened.locator(`.artifact ${shown}`).waitFor({ state: 'detached', ...soon });
  }
  await clean(opened);
});
