// The log-in page: by token and by password, back to the page that was wanted, out again; in two languages, by keyboard, for everybody.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Service, axe, browser, page } from './support.mjs';

let service;
let started;
let token;
before(async () => {
  service = new Service();
  service.env = { SKILL_RUNNER_TOKEN: 'setting-token', UI_BASIC_AUTH_ENABLED: 'on', UI_BASIC_AUTH_USERNAME: 'ann', UI_BASIC_AUTH_PASSWORD: 'secret' };
  await service.start();
  token = service.command('token', 'new', 'bob', '--scope', 'run');
  started = await browser();
});
after(async () => {
  await started?.close();
  await service?.stop();
});

const title = (opened) => opened.getByRole('heading', { level: 1, name: 'Log in' });

test('a token opens the page that was wanted, and logging out closes it', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/ui/skills/demo-echo?x=1`);
  await title(opened).waitFor();
  assert.equal(await opened.getByRole('link', { name: 'Skills' }).count(), 0, 'nothing of the service is shown');
  // By keyboard alone: the first field has the focus, the other way is two steps on.
  assert.equal(await opened.evaluate(() => document.activeElement?.id), 'login-name');
  await opened.getByRole('button', { name: 'Use a token instead' }).focus();
  await opened.keyboard.press('Enter');
  await opened.waitForFunction(() => document.activeElement?.id === 'login-token');
  await opened.keyboard.type('sr_wrong');
  await opened.keyboard.press('Enter');
  await opened.getByText('This token is not right, or it has been revoked.').waitFor();
  await opened.waitForFunction(() => document.activeElement?.id === 'login-token');
  await opened.keyboard.press('Control+A');
  await opened.keyboard.type(token);
  assert.equal(await opened.locator('#login-token').inputValue(), token, 'what was typed is what is sent');
  await opened.keyboard.press('Enter');
  // The name of the skill, which stays; its id is the heading only while the page loads.
  await opened.getByRole('heading', { level: 1, name: 'Echo', exact: true }).waitFor().catch(async (error) => {
    throw new Error(`${error.message}\nThe page says: ${await opened.locator('body').innerText()}`);
  });
  assert.equal(new URL(opened.url()).pathname, '/ui/skills/demo-echo');
  const cookies = await opened.context().cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite, secure }) => ({ httpOnly, sameSite, secure })), [{ httpOnly: true, sameSite: 'Strict', secure: false }]);
  assert.equal(await opened.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })), '{}', 'no script sees the session');
  // A run, made and followed with the cookie, says who made it.
  const made = await opened.evaluate(async () => (await fetch('/v1/jobs?wait=60', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"skill_id":"demo-echo","input":{"text":"hi"}}' })).json());
  await opened.goto(`${service.url}/ui/runs/${made.request_id}`);
  await opened.locator('.live:not(.is-loading)').waitFor();
  const history = await opened.evaluate(async (id) => (await fetch(`/v1/jobs/${id}/events/history`)).json(), made.request_id);
  assert.equal(history.events[0].data.requested_by, 'bob');
  await opened.getByRole('button', { name: 'Log out' }).click();
  await title(opened).waitFor();
  assert.equal(await opened.evaluate(async () => (await fetch('/v1/jobs')).status), 401);
  assert.deepEqual(opened.troubles, []);
});

test('name and password open everything, a session ends with its token, and a restart ends none', async () => {
  const opened = await page(started);
  await opened.goto(`${service.url}/docs`);
  await title(opened).waitFor();
  await opened.getByLabel('Name').fill('ann');
  await opened.getByLabel('Password').fill('secret');
  await opened.getByRole('button', { name: 'Log in' }).click();
  await opened.waitForURL(`${service.url}/docs`);
  await opened.goto(`${service.url}/ui/system`);
  await opened.getByRole('heading', { level: 1, name: 'System' }).waitFor();
  await service.kill();
  await service.start();
  await opened.reload();
  await opened.getByRole('heading', { level: 1, name: 'System' }).waitFor();

  const other = await page(started);
  const brief = service.command('token', 'new', 'brief', '--scope', 'read');
  await other.goto(`${service.url}/ui/log-in?to=//evil.example/`);
  await other.getByRole('button', { name: 'Use a token instead' }).click();
  await other.getByLabel('Token').fill(brief);
  await other.getByRole('button', { name: 'Log in' }).click();
  await other.getByRole('link', { name: 'Skills' }).waitFor();
  assert.equal(other.url(), `${service.url}/ui`, 'an address elsewhere is not followed');
  service.command('token', 'revoke', 'brief');
  // The page may learn of it by itself, by its next question for runs, and then the link is gone before it can be clicked.
  await other.evaluate(() => /** @type {HTMLElement | null} */ (document.querySelector('a[href="/ui/skills"]'))?.click());
  await title(other).waitFor();
  assert.deepEqual([...opened.troubles, ...other.troubles], []);
});

for (const [locale, colorScheme, width, heading, button] of [['en-US', 'light', 1400, 'Log in', 'Use a token instead'], ['zh-CN', 'dark', 390, '登录', '改用令牌登录'], ['en-US', 'dark', 1400, 'Log in', 'Use a token instead'], ['zh-CN', 'light', 390, '登录', '改用令牌登录']].slice(0, process.env.UI_TEST_SHOTS ? 4 : 2)) {
  test(`axe finds no violation on the log-in page, ${locale}, ${colorScheme}, ${width} wide`, async () => {
    const opened = await page(started, { locale, colorScheme, viewport: { width, height: 844 }, bypassCSP: true });
    await opened.goto(`${service.url}/ui/system`);
    await opened.getByRole('heading', { level: 1, name: heading }).waitFor();
    for (const state of ['password', 'token', 'wrong']) {
      if (state === 'token') await opened.getByRole('button', { name: button }).click();
      if (state === 'wrong') {
        await opened.locator('#login-token').fill('sr_wrong');
        await opened.keyboard.press('Enter');
        await opened.locator('#login-problem:not(:empty)').waitFor();
      }
      if (process.env.UI_TEST_SHOTS) {
        fs.mkdirSync(process.env.UI_TEST_SHOTS, { recursive: true });
        await opened.screenshot({ path: path.join(process.env.UI_TEST_SHOTS, `log-in-${state}-${locale}-${width}-${colorScheme}.png`) });
      }
      const wide = await opened.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${state}: ${wide} px wider than the screen`);
      await opened.evaluate(axe);
      const { violations } = await opened.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
      assert.deepEqual(violations.map((violation) => `${violation.id}: ${violation.nodes[0].html}`), []);
    }
    assert.deepEqual(opened.troubles, []);
  });
}
