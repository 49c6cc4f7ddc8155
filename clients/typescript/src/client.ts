// The client: what can be asked of a service.

import type * as api from './api.js';
import { type Call, type FileContent, calls } from './calls.js';
import { ApiError, SkillRunnerError, WaitTimeout, refusalOf } from './errors.js';
import { Exchange, type Options, mayRepeat } from './exchange.js';
import { Attempts, RETRY } from './retry.js';
import { Log, Parser, isLast } from './sse.js';

export type { Options } from './exchange.js';
export type Job = api.JobFields & { result?: api.Result };
/** What a run is asked to do, but for its skill. */
export type RunOptions = Omit<api.NewRun, 'skill_id'>;
export interface CreateOptions {
  /** Without one, a new key is made: a create that is sent again after a lost answer makes no second run. */
  idempotencyKey?: string;
  /** Seconds to hold the answer back until the run has ended or asks (600 at most). */
  wait?: number;
}
export interface WaitOptions {
  /** Milliseconds after which `WaitTimeout` is thrown; the run goes on. */
  timeout?: number;
  signal?: AbortSignal;
}
export interface FollowOptions {
  /** The `seq` of the last event that was seen. */
  cursor?: number;
  signal?: AbortSignal;
}
/** What `EventSource` is used by `followWithEventSource`. */
export interface EventSourceLike {
  readonly readyState: number;
  addEventListener(name: string, listener: (event: { data?: string }) => void): void;
  close(): void;
}
export interface EventSourceOptions extends FollowOptions {
  /** Parameters for the address, such as a ticket: an EventSource sends no headers. Asked for each new connection. */
  query?: () => Record<string, string> | Promise<Record<string, string>>;
  /** Whether cookies go to another origin. */
  withCredentials?: boolean;
  EventSource?: new (url: string, init?: { withCredentials?: boolean }) => EventSourceLike;
}

/**
 * A client of one service. Every `run` is a request id or a run id.
 *
 * ```js
 * const client = new Client('http://127.0.0.1:8000');
 * const job = await client.run('demo-echo', { input: { text: 'hello' } });
 * console.log(job.status, job.result.data);
 * ```
 */
export class Client {
  readonly #exchange: Exchange;

  constructor(url = 'http://127.0.0.1:8000', options: Options = {}) {
    this.#exchange = new Exchange(url, options, { ...RETRY, ...options.retry });
  }

  /** Creates a run, once, even if its answer is lost and the request is sent again. */
  async create(skillId: string, options: RunOptions = {}, { idempotencyKey, wait }: CreateOptions = {}): Promise<Job> {
    return this.#created(await this.#send(calls.create({ skill_id: skillId, ...options }, idempotencyKey, wait)));
  }

  /** Creates a run of a skill that is not installed: its package is a zip, and so are its input files. */
  async createTemporary(skillPackage: FileContent, files?: FileContent, options: RunOptions = {}, { idempotencyKey }: CreateOptions = {}): Promise<Job> {
    const created = await this.#send<api.Created>(calls.createTemporary(options, idempotencyKey));
    return this.upload(created.run_id, { skill_package: skillPackage, ...(files === undefined ? {} : { file: files }) });
  }

  /** Creates a run that asks for the same, but for the changes. */
  async rerun(run: string, changes: Partial<api.Rerun> = {}, { idempotencyKey, wait }: CreateOptions = {}): Promise<Job> {
    return this.#created(await this.#send(calls.rerun(run, changes, idempotencyKey, wait)));
  }

  /** Uploads the files of a run, each under the name of its input; that starts the run. */
  async upload(run: string, files: Record<string, FileContent>): Promise<Job> {
    await this.#send(calls.upload(run, files));
    return this.job(run);
  }

  /** Creates a run, uploads its files, and waits until it has ended or asks its user. */
  async run(skillId: string, options: RunOptions = {}, { files, ...wait }: WaitOptions & { files?: Record<string, FileContent> } = {}): Promise<Job> {
    if (files === undefined) return this.wait((await this.create(skillId, options)).run_id, wait);
    const created = await this.create(skillId, { ...options, await_upload: true });
    return this.wait((await this.upload(created.run_id, files)).run_id, wait);
  }

  /** A run as it is now, or as it was after an event. */
  job(run: string, atSeq?: number): Promise<Job> {
    return this.#send(calls.job(run, atSeq));
  }

  /** Runs, newest first, page by page: `status`, `skill_id`, `engine`, `label` (a list), `since`, `until`; `limit` is the size of a page. */
  async *runs(filters: Record<string, unknown> = {}): AsyncGenerator<Job, void> {
    let before = filters['before'];
    do {
      const page: api.JobList = await this.#send(calls.runs({ ...filters, before }));
      yield* page.jobs;
      before = page.next_before;
    } while (before);
  }

  /** Waits until a run has ended or asks its user. */
  async wait(run: string, { timeout, signal }: WaitOptions = {}): Promise<Job> {
    const abort = new AbortController();
    const stop = (): void => abort.abort(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    const late = (): void => abort.abort(new WaitTimeout(`run ${run} has not ended in time; it goes on`));
    const timer = timeout === undefined ? undefined : setTimeout(late, timeout);
    try {
      let job = await this.job(run);
      while (job.status === 'queued' || job.status === 'running') {
        for await (const event of this.follow(run, { cursor: job.head_seq, signal: abort.signal })) {
          if (event.type === 'user.input.required' || isLast(event)) break;
        }
        job = await this.job(run);
      }
      return job.status === 'waiting_user' ? job : { ...job, result: await this.result(run) };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  /** The result of a run that has ended; one that failed has `error`. */
  async result(run: string): Promise<api.Result> {
    return (await this.#send<api.RunResult>(calls.result(run))).result;
  }

  /** Cancels a run; one that has ended stays as it is, and `accepted` is false. */
  cancel(run: string): Promise<api.Canceled> {
    return this.#send(calls.cancel(run));
  }

  /** Deletes a run that has ended. */
  async delete(run: string): Promise<void> {
    await this.#send(calls.delete(run));
  }

  /** The question that a run waits with. */
  async pending(run: string): Promise<api.Interaction | null> {
    return (await this.#send<api.Pending>(calls.pending(run))).pending;
  }

  /** Answers a question, once. */
  reply(run: string, interactionId: number, response: unknown, { idempotencyKey }: CreateOptions = {}): Promise<api.Replied> {
    return this.#send(calls.reply(run, interactionId, response, idempotencyKey));
  }

  /**
   * The events of a run after the cursor as they come, each once and in order, until its last one. Broken connections are opened again where
   * they were. To go on later, keep the `seq` of the last event as the cursor.
   */
  async *follow(run: string, { cursor = 0, signal }: FollowOptions = {}): AsyncGenerator<api.Event, void> {
    const log = new Log(cursor);
    const attempts = new Attempts(this.#exchange.retry);
    while (!log.ended) {
      const call = calls.events(run, log.cursor);
      let failure: SkillRunnerError;
      try {
        const opened = await this.#exchange.open(call, undefined, signal);
        try {
          if (opened.answer.status === 204) return;
          if (!opened.answer.ok) throw await refusalOf(opened.answer);
          const parser = new Parser();
          const decoder = new TextDecoder();
          for await (const piece of opened.pieces()) {
            for (const { name, data } of parser.feed(decoder.decode(piece, { stream: true }))) {
              const event = log.take(name, data);
              if (event === null) continue;
              attempts.progress();
              yield event;
            }
          }
        } finally {
          opened.close();
        }
        if (log.ended) return;
        failure = this.#exchange.lost('the stream ended before the run');
      } catch (error) {
        failure = error instanceof ApiError ? error : this.#exchange.failure(error, signal);
      }
      if (!mayRepeat(call, failure)) throw failure;
      await attempts.pauseAfter(failure, signal);
    }
  }

  /**
   * The same by an `EventSource`, which resumes by itself; where it gives up, another one is opened at the cursor. It sends no headers, so the
   * service must know the page by its log-in or by a parameter.
   */
  async *followWithEventSource(run: string, options: EventSourceOptions = {}): AsyncGenerator<api.Event, void> {
    const { signal, query, withCredentials = false } = options;
    const Source = options.EventSource ?? (globalThis as { EventSource?: EventSourceOptions['EventSource'] }).EventSource;
    if (Source === undefined) throw new TypeError('there is no EventSource here; use follow()');
    const log = new Log(options.cursor ?? 0);
    const attempts = new Attempts(this.#exchange.retry);
    while (!log.ended) {
      const job = await this.job(run);
      if (job.head_seq <= log.cursor && isFinal(job.status)) return;
      const call = calls.events(run, log.cursor);
      const source = new Source(this.#exchange.url({ ...call, query: { ...call.query, ...(await query?.()) } }), { withCredentials });
      const waiting: api.Event[] = [];
      let wake = (): void => {};
      let broken: unknown;
      const stop = (): void => { broken = signal?.reason ?? new Error('stopped'); wake(); };
      source.addEventListener('chat_event', ({ data = '' }) => {
        try {
          const event = log.take('chat_event', data);
          if (event !== null) waiting.push(event);
        } catch (gap) {
          broken = gap;
        }
        wake();
      });
      source.addEventListener('error', () => {
        // It comes back by itself unless it is closed.
        if (source.readyState === 2) broken ??= new Error('the event stream was closed');
        wake();
      });
      if (signal?.aborted) stop();
      signal?.addEventListener('abort', stop, { once: true });
      try {
        for (;;) {
          for (let event = waiting.shift(); event !== undefined; event = waiting.shift()) {
            attempts.progress();
            yield event;
            if (isLast(event)) return;
          }
          if (broken !== undefined) break;
          await new Promise<void>((resolve) => { wake = resolve; if (waiting.length > 0 || broken !== undefined) resolve(); });
        }
      } finally {
        source.close();
        signal?.removeEventListener('abort', stop);
      }
      await attempts.pauseAfter(this.#exchange.failure(broken, signal), signal);
    }
  }

  /** The events that a run has by now. */
  async *history(run: string, fromSeq = 1, toSeq?: number): AsyncGenerator<api.Event, void> {
    for (let at: number | null = fromSeq; at !== null;) {
      const page: api.History = await this.#send(calls.history(run, at, toSeq));
      yield* page.events;
      at = page.next_seq;
    }
  }

  /** The files that a run made. */
  artifacts(run: string): Promise<api.Artifacts> {
    return this.#send(calls.artifacts(run));
  }

  /** A file that a run made, by its `path_rel`; what a cut connection brought is kept, and the rest fetched. */
  download(run: string, path: string): Promise<Uint8Array> {
    return this.#download(calls.artifact(run, path));
  }

  /** Result and artifacts as one zip. */
  bundle(run: string): Promise<Uint8Array> {
    return this.#download(calls.bundle(run));
  }

  /** The prompt and the output of the engine. */
  logs(run: string): Promise<api.Logs> {
    return this.#send(calls.logs(run));
  }

  /** A part of an output, and the events made of it. */
  logRange(run: string, stream: api.LogRange['stream'], byteFrom = 0, byteTo?: number): Promise<api.LogRange> {
    return this.#send(calls.logRange(run, stream, byteFrom, byteTo));
  }

  /** Why a run failed, or where a field of its result came from. */
  explain(run: string, path?: string): Promise<api.Explained> {
    return this.#send(calls.explain(run, path));
  }

  /** The installed skills. */
  async skills(): Promise<api.SkillSummary[]> {
    return (await this.#send<api.Skills>(calls.skills())).skills;
  }

  /** A skill with its schemas. */
  skill(id: string): Promise<api.Skill> {
    return this.#send(calls.skill(id));
  }

  /** Installs a skill package, which is a zip. */
  installSkill(file: FileContent, wait = 60): Promise<api.Installation> {
    return this.#send(calls.installSkill(file, wait));
  }

  /** The engines, with version and login. */
  engines(): Promise<api.Engines> {
    return this.#send(calls.engines());
  }

  /** Version, load, limits and disk of the service. */
  system(): Promise<api.System> {
    return this.#send(calls.system());
  }

  /** Any other route of `/v1/openapi.json`. A request that is not a GET is not repeated by itself. */
  request<T>(method: Call['method'], path: string, { query = {}, json }: { query?: Record<string, unknown>; json?: unknown } = {}): Promise<T> {
    return this.#send({ method, path, query, json, repeatable: method === 'GET' });
  }

  async #created(answer: api.CreatedOrFinished): Promise<Job> {
    // After a wait the answer is the job; else its ids.
    return 'head_seq' in answer ? answer : this.job(answer.run_id);
  }

  async #send<T>(call: Call): Promise<T> {
    return (await this.#exchange.send(call)) as T;
  }

  async #download(call: Call): Promise<Uint8Array> {
    const attempts = new Attempts(this.#exchange.retry);
    let [pieces, size, tag]: [Uint8Array[], number, string | null] = [[], 0, null];
    for (;;) {
      const before = size;
      let failure: SkillRunnerError;
      try {
        const rest = size > 0 && tag !== null ? { Range: `bytes=${size}-`, 'If-Range': tag } : undefined;
        const opened = await this.#exchange.open(rest === undefined ? call : { ...call, headers: rest });
        try {
          if (!opened.answer.ok) throw await refusalOf(opened.answer);
          if (opened.answer.status !== 206) [pieces, size] = [[], 0];
          tag = opened.answer.headers.get('etag');
          for await (const piece of opened.pieces()) {
            pieces.push(piece);
            size += piece.length;
          }
          return joined(pieces, size);
        } finally {
          opened.close();
        }
      } catch (error) {
        failure = error instanceof ApiError ? error : this.#exchange.failure(error);
      }
      if (size > before) attempts.progress();
      if (!mayRepeat(call, failure)) throw failure;
      await attempts.pauseAfter(failure);
    }
  }
}

const isFinal = (status: api.RunStatus): boolean => status === 'succeeded' || status === 'failed' || status === 'canceled';

function joined(pieces: Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
