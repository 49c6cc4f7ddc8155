// A real service in a folder of its own, skills for it, a program that poses as codex, and a browser.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

// The packages are installed once per machine, outside the repository.
const require = createRequire(path.join(process.env.UI_TEST_PACKAGES ?? process.cwd(), 'index.js'));
const { chromium } = require('playwright-core');
const PROGRAM = process.env.UI_TEST_PROGRAM;
const REPOSITORY = path.resolve(import.meta.dirname, '../..');
/** Longest time that anything may take on a loaded machine. */
export const LONG = 60_000;

const CODEX = `#!/bin/sh
here=FOLDER
[ "$1" = --version ] && { echo 'codex-cli 9.9.9'; exit 0; }
cat > /dev/null
thread= before=
for word in "$@"; do [ "$before" = resume ] && thread=$word; before=$word; done
[ -z "$thread" ] && { thread=$(cat /proc/sys/kernel/random/uuid); mkdir -p "$here/$thread"; }
turn=1
while [ -e "$here/$thread/$turn" ]; do turn=$((turn + 1)); done
: > "$here/$thread/$turn"
sed "s/THREAD/$thread/" "$here/plan-$turn"
`;

export class Service {
  constructor() {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'skill-runner-ui-'));
    fs.cpSync(path.join(REPOSITORY, 'skills'), path.join(this.folder, 'skills'), { recursive: true });
    fs.mkdirSync(path.join(this.folder, 'codex'));
    const codex = path.join(this.folder, 'codex/codex');
    fs.writeFileSync(codex, CODEX.replaceAll('FOLDER', path.join(this.folder, 'codex')), { mode: 0o755 });
    this.port = 0;
    this.process = null;
    /** Variables of the environment for the service besides the usual ones. */
    this.env = {};
  }

  /** What sessions of codex say from now on, turn by turn; each turn is a list of items. */
  codexSays(...turns) {
    turns.forEach((items, at) => {
      const usage = { input_tokens: 1200, cached_input_tokens: 0, output_tokens: 80 };
      const lines = [{ type: 'thread.started', thread_id: 'THREAD' }, { type: 'turn.started' }, ...items.map((item, place) => ({ type: 'item.completed', item: { id: `item_${place}`, ...item } })), { type: 'turn.completed', usage }];
      fs.writeFileSync(path.join(this.folder, `codex/plan-${at + 1}`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    });
  }

  /** Installs a script skill. */
  skill(id, sh, { readme = 'Does it.', description = 'A test skill.', ...schemas } = {}) {
    const folder = path.join(this.folder, 'skills', id);
    fs.mkdirSync(path.join(folder, 'assets'), { recursive: true });
    fs.mkdirSync(path.join(folder, 'scripts'));
    const runner = { id, version: '1.0.0', execution_modes: ['auto'], entrypoint: { type: 'script', script: { command: 'sh scripts/run.sh' } }, schemas: {}, ...schemas.runner };
    for (const kind of ['input', 'parameter', 'output']) {
      runner.schemas[kind] = `assets/${kind}.schema.json`;
      fs.writeFileSync(path.join(folder, runner.schemas[kind]), JSON.stringify(schemas[kind] ?? { type: 'object' }));
    }
    fs.writeFileSync(path.join(folder, 'assets/runner.json'), JSON.stringify(runner));
    fs.writeFileSync(path.join(folder, 'SKILL.md'), `---\nname: ${id}\ndescription: ${JSON.stringify(description)}\n---\n\n${readme}\n`);
    fs.writeFileSync(path.join(folder, 'scripts/run.sh'), sh);
  }

  async start() {
    this.port ||= await freePort();
    const env = { PATH: process.env.PATH, HOME: this.folder, SKILL_RUNNER_CODEX_BIN: path.join(this.folder, 'codex/codex'), SKILL_RUNNER_MIN_FREE_BYTES: '0', SKILL_RUNNER_SANDBOX_WRITE: path.join(this.folder, 'codex'), ...this.env };
    const args = ['serve', '--port', String(this.port), '--data-dir', path.join(this.folder, 'data'), '--skills-dir', path.join(this.folder, 'skills')];
    this.process = spawn(PROGRAM, args, { env, cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    await new Promise((resolve, reject) => {
      const heard = (bytes) => { said += bytes; if (said.includes('listening on')) resolve(); };
      this.process.stdout.on('data', heard);
      this.process.stderr.on('data', heard);
      this.process.once('exit', () => reject(new Error(`the service ended: ${said}`)));
    });
    await this.until(() => this.get('/readyz'), (answer) => answer !== null);
    return this;
  }

  /** Runs a command of the program on the data folder of the service; what it prints. */
  command(...args) {
    return execFileSync(PROGRAM, ['--data-dir', path.join(this.folder, 'data'), ...args], { env: { PATH: process.env.PATH, HOME: this.folder }, cwd: this.folder, encoding: 'utf8' }).trim();
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async get(route) {
    const answer = await fetch(this.url + route);
    if (!answer.ok) throw new Error(`${route}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  async post(route, body) {
    const answer = await fetch(this.url + route, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${route}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** Creates a run and waits for its end, or for its question. */
  async run(skill, body = {}) {
    const job = await this.post('/v1/jobs', { skill_id: skill, ...body });
    return this.until(() => this.get(`/v1/jobs/${job.request_id}`), (now) => ['succeeded', 'failed', 'canceled', 'waiting_user'].includes(now.status), 180_000);
  }

  async until(ask, holds, within = LONG) {
    const end = Date.now() + within;
    for (;;) {
      try {
        const answer = await ask();
        if (holds(answer)) return answer;
      } catch (error) {
        if (Date.now() > end) throw error;
      }
      if (Date.now() > end) throw new Error('waited too long');
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  }

  /** Ends the service at once, as a crash does. */
  async kill() {
    const gone = new Promise((resolve) => { this.process.once('exit', resolve); });
    this.process.kill('SIGKILL');
    await gone;
  }

  async stop() {
    const gone = new Promise((resolve) => { this.process.once('exit', resolve); });
    this.process.kill('SIGTERM');
    await gone;
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The example clients, by their address, with the service of each. @type {Map<string, string>} */
const clients = new Map();

/** The example client of a service, as a process of its own. */
export class ExampleClient {
  constructor(service) {
    this.service = service;
    this.recordings = path.join(service.folder, 'recordings');
    this.process = null;
    /** The address that it prints. */
    this.url = '';
  }

  async start(env = {}) {
    const args = ['e2e-client', '--port', '0', '--server', this.service.url, '--recordings', this.recordings];
    this.process = spawn(PROGRAM, args, { env: { PATH: process.env.PATH, HOME: this.service.folder, ...env }, cwd: this.service.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    await new Promise((resolve, reject) => {
      const heard = (bytes) => { said += bytes; if (/listening on .*\n/.test(said)) resolve(); };
      this.process.stdout.on('data', heard);
      this.process.stderr.on('data', heard);
      this.process.once('exit', () => reject(new Error(`the example client ended: ${said}`)));
    });
    this.url = /listening on (\S+)/.exec(said)[1];
    clients.set(new URL(this.url).origin, this.service.url);
    return this;
  }

  async stop() {
    const gone = new Promise((resolve) => { this.process.once('exit', resolve); });
    this.process.kill('SIGTERM');
    await gone;
  }
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export async function browser() {
  const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--js-flags=--expose-gc', '--enable-precise-memory-info'];
  return chromium.launch({ executablePath: process.env.UI_TEST_CHROMIUM ?? '/usr/bin/chromium', args: flags });
}

/** A page that fails its test when a script throws, a dialog opens, or the policy stops something. */
export async function page(started, options = {}) {
  const context = await started.newContext({ locale: 'en-US', viewport: { width: 1400, height: 900 }, reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(LONG);
  const opened = await context.newPage();
  opened.troubles = [];
  if (process.env.UI_TEST_FILES) {
    await context.route(/\/ui(\/|$|\?)/, fromFolder);
    await context.route((url) => clients.has(url.origin) && !/^\/(v1|client|ui)(\/|$)/.test(url.pathname) && !url.searchParams.has('key'), fromFolder);
  }
  opened.on('pageerror', (error) => opened.troubles.push(`error: ${error.message}`));
  opened.on('dialog', (dialog) => { opened.troubles.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await opened.exposeFunction('reportViolation', (what) => opened.troubles.push(`policy: ${what}`));
  await opened.addInitScript(() => addEventListener('securitypolicyviolation', (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`)));
  return opened;
}

/** Answers from a folder what the program would answer from its inside: changed files are tried without compiling it. */
async function fromFolder(route) {
  const { origin, pathname } = new URL(route.request().url());
  if (pathname === '/ui/session') {
    await route.continue();
    return;
  }
  const { headers } = await fetch(`${clients.get(origin) ?? origin}/ui`);
  const shell = clients.has(origin) ? 'e2e.html' : 'index.html';
  const file = path.join(process.env.UI_TEST_FILES, pathname.startsWith('/ui/static/') ? pathname.slice('/ui/static/'.length) : shell);
  const types = { '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml', '.html': 'text/html' };
  await route.fulfill({ body: fs.readFileSync(file), headers: { 'content-type': types[path.extname(file)], 'content-security-policy': headers.get('content-security-policy') } });
}

export const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
