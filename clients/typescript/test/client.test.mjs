// The client against a real service, directly and through a proxy that cuts its connections.
//
// Needs SKILL_RUNNER_URL, the address of a service with the skills that tests/it/clients.rs gives it; SKILL_RUNNER_CLIENT is the folder
// of the built package, ../dist unless it is set.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { CuttingProxy } from './cutting-proxy.mjs';

const URL_OF_SERVICE = process.env.SKILL_RUNNER_URL;
const built = (file) => pathToFileURL(path.resolve(process.env.SKILL_RUNNER_CLIENT ?? fileURLToPath(new URL('../dist', import.meta.url)), file)).href;
const { Client, Conflict, ConnectionLost, InvalidRequest, NotFound, WaitTimeout } = await import(built('index.js'));
const { Gap, Log, Parser } = await import(built('sse.js'));

/** Cuts are what is tried here: many in a row are no reason to give up. */
const STUBBORN = { attempts: 500, firstPause: 1, longestPause: 20 };
/** The script of the skill `talks` writes so many lines. */
const LINES = 300;
const direct = new Client(URL_OF_SERVICE);
const proxies = [];

/** A proxy whose connections live for so many bytes at most, and a client behind it. */
async function cutting(...most) {
  const proxy = await new CuttingProxy(URL_OF_SERVICE, 11).listen();
  proxy.most = most;
  proxies.push(proxy);
  return { proxy, client: new Client(proxy.url, { retry: STUBBORN }) };
}

async function all(list) {
  const found = [];
  for await (const each of list) found.push(each);
  return found;
}

after(() => proxies.forEach((proxy) => proxy.close()));

test('a log is followed without loss or double while hundreds of connections are cut', async () => {
  const { proxy, client } = await cutting(600, 6000);
  const { run_id: run } = await direct.create('talks', { input: { n: 11 }, runtime_options: { no_cache: true } });
  // The first one runs while the log grows; the others read it from its beginning.
  const logs = [await all(client.follow(run))];
  while (proxy.cuts < 300) logs.push(await all(client.follow(run)));
  const whole = await all(direct.history(run));
  assert.ok(whole.length > LINES, `${whole.length}`);
  for (const log of logs) assert.deepEqual(log, whole);
});

test('a log is followed from any cursor', async () => {
  const { run_id: run } = await direct.run('demo-echo', { input: { text: 'any cursor' } });
  const whole = await all(direct.history(run));
  for (let cursor = 0; cursor <= whole.length; cursor += 1) {
    assert.deepEqual(await all(direct.follow(run, { cursor })), whole.slice(cursor));
  }
});

test('no run is created twice or lost while connections are cut', async () => {
  const { proxy, client } = await cutting(1500, 1500);
  const label = randomUUID();
  const made = [];
  for (let n = 0; n < 60; n += 1) {
    const job = await client.create('demo-prime-number', { await_upload: true, labels: { test: label, name: `run-${n}` } });
    made.push([job.labels.name, job.run_id]);
  }
  assert.ok(proxy.cuts > 60, `${proxy.cuts} cuts`);
  const listed = await all(direct.runs({ label: [`test:${label}`], limit: 25 }));
  assert.deepEqual(listed.map((job) => [job.labels.name, job.run_id]).sort(), made.sort());
  for (const [, run] of made) assert.equal((await client.cancel(run)).status, 'canceled');
});

test('files arrive whole and once while connections are cut', async () => {
  const { proxy, client } = await cutting(40_000, 12_000);
  const numbers = Array.from({ length: 4000 }, (_, n) => n).join(' ');
  for (let n = 0; n < 6; n += 1) {
    const job = await client.run('demo-prime-number', { labels: { n: `${n}` } }, { files: { input_file: numbers } });
    assert.equal(job.status, 'succeeded', JSON.stringify(job));
    assert.equal(job.result.data.primes.length, 550);
    const uploads = (await all(direct.history(job.run_id))).filter((event) => event.type === 'input.uploaded');
    assert.equal(uploads.length, 1);
  }
  assert.ok(proxy.cuts > 6, `${proxy.cuts} cuts`);
});

test('a question is answered once while connections are cut', async () => {
  const { client } = await cutting(1500, 2500);
  const job = await client.run('demo-interview', { engine: 'codex', runtime_options: { execution_mode: 'interactive', no_cache: true } });
  assert.equal(job.status, 'waiting_user');
  const asked = await client.pending(job.run_id);
  assert.equal(asked.prompt, 'What is your name?');
  assert.equal((await client.reply(job.run_id, asked.interaction_id, 'Ann')).accepted, true);
  const done = await client.wait(job.run_id);
  assert.deepEqual([done.status, done.result.data.name], ['succeeded', 'Ann']);
  const replies = (await all(direct.history(job.run_id))).filter((event) => event.type === 'interaction.reply.accepted');
  assert.equal(replies.length, 1);
});

test('a file is downloaded whole while connections are cut', async () => {
  const job = await direct.run('talks', { input: { n: 11 } });
  const big = job.result.artifacts.find((each) => each.filename === 'big.bin');
  const { proxy, client } = await cutting(2000, 60_000);
  const content = await client.download(job.run_id, big.path_rel);
  assert.deepEqual([content.length, createHash('sha256').update(content).digest('hex')], [big.size, big.sha256]);
  assert.equal(String.fromCharCode(...(await direct.bundle(job.run_id)).subarray(0, 2)), 'PK');
  assert.ok(proxy.cuts > 10, `${proxy.cuts} cuts`);
});

test('a refusal is an error with code, hint, details and the run', async () => {
  await assert.rejects(direct.create('demo-echo', { input: { text: 5 } }), (error) => {
    assert.ok(error instanceof InvalidRequest);
    assert.deepEqual([error.code, error.status, error.details[0].path], ['INPUT_VALIDATION_FAILED', 400, '/input/text']);
    return error.hint.includes('correct the places');
  });
  await assert.rejects(direct.create('nothing'), (error) => error instanceof NotFound && error.hint.includes('GET /v1/skills lists'));
  const run = await direct.create('demo-prime-number', { await_upload: true });
  await assert.rejects(direct.result(run.run_id), (error) => {
    assert.deepEqual([error.code, error.requestId], ['RESULT_NOT_READY', run.request_id]);
    return error instanceof Conflict;
  });
  await direct.cancel(run.run_id);
});

test('a key that another run has is a conflict', async () => {
  const idempotencyKey = randomUUID();
  const first = await direct.create('demo-echo', { input: { text: 'one' } }, { idempotencyKey });
  assert.equal((await direct.create('demo-echo', { input: { text: 'one' } }, { idempotencyKey })).run_id, first.run_id);
  await assert.rejects(direct.create('demo-echo', { input: { text: 'two' } }, { idempotencyKey }), { code: 'IDEMPOTENCY_CONFLICT' });
});

test('a failed run is an answer and not an error', async () => {
  const job = await direct.run('demo-fail-exit');
  assert.deepEqual([job.status, job.result.status], ['failed', 'failed']);
  assert.equal((await direct.explain(job.run_id)).code, job.error.code);
});

test('waiting ends in time or when it is stopped, and the run goes on', async () => {
  const { run_id: run } = await direct.create('demo-prime-number', { await_upload: true });
  await assert.rejects(direct.wait(run, { timeout: 200 }), WaitTimeout);
  const stop = new AbortController();
  const waiting = direct.wait(run, { signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  assert.equal((await direct.job(run)).status, 'queued');
  await direct.cancel(run);
  assert.equal((await direct.wait(run)).status, 'canceled');
});

test('a stream that never brings an event, and a service that is not there, are given up with an error', async () => {
  const { proxy } = await cutting(40, 40);
  const { run_id: run } = await direct.create('demo-echo', { input: { text: 'given up' } });
  const few = { retry: { attempts: 3, firstPause: 1 } };
  await assert.rejects(all(new Client(proxy.url, few).follow(run)), (error) => error instanceof ConnectionLost && error.message.includes(proxy.url));
  await assert.rejects(new Client('http://127.0.0.1:9', few).system(), ConnectionLost);
  assert.throws(() => new Client('127.0.0.1:8000'), TypeError);
  await assert.rejects(direct.request('GET', '/v1/colour'), { code: 'ROUTE_NOT_FOUND' });
});

const STREAM = 'retry: 2000\nevent: snapshot\ndata: {}\n\n: a comment\nid: 1\nevent: chat_event\r\ndata: {"seq": 1, "type": "a"}\n\n'
  + 'event: heartbeat\ndata: {}\n\nevent:chat_event\ndata:{"seq": 2, "type": "conversation.failed"}\n\nevent: chat_event\ndata: {"seq": 3';

test('events are the same however their text comes, those that come again are left out, and a gap is seen', () => {
  const read = (log, ...pieces) => {
    const parser = new Parser();
    const found = pieces.flatMap((piece) => parser.feed(piece)).map(({ name, data }) => log.take(name, data));
    return found.filter((event) => event !== null).map((event) => event.seq);
  };
  for (let at = 0; at <= STREAM.length; at += 1) assert.deepEqual(read(new Log(0), STREAM.slice(0, at), STREAM.slice(at)), [1, 2]);
  assert.deepEqual(read(new Log(1), STREAM), [2]);
  assert.throws(() => new Log(0).take('chat_event', '{"seq": 2, "type": "a"}'), Gap);
});
