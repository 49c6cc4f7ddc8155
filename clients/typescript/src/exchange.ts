// Sends calls to one service: addresses, headers, bodies, deadlines, repeated attempts.

import type { Call, FileContent } from './calls.js';
import { ApiError, ConnectionLost, type SkillRunnerError, refusalOf } from './errors.js';
import { Attempts, type Retry } from './retry.js';

/** Milliseconds of silence after which a stream is taken for dead; a living one has a heartbeat. */
const SILENCE = 60_000;

export interface Options {
  /** The token of the service. */
  token?: string;
  /** Milliseconds that an answer may take. */
  timeout?: number;
  retry?: Partial<Retry>;
  /** Another `fetch`, for tests or special connections. */
  fetch?: typeof fetch;
  /** `include` sends the log-in of the user interface, for pages of another origin. */
  credentials?: 'omit' | 'same-origin' | 'include';
}

/** An answer that is read as it comes; the deadline is about its pieces. */
export interface Opened {
  answer: Response;
  pieces(): AsyncGenerator<Uint8Array, void>;
  close(): void;
}

/** Whether another attempt makes sense. */
export function mayRepeat(call: Call, failure: SkillRunnerError): boolean {
  if (failure instanceof ConnectionLost) return call.repeatable !== false;
  // The service was busy and has done nothing.
  return failure instanceof ApiError && (failure.status === 429 || failure.status === 503) && failure.code !== 'INSUFFICIENT_STORAGE';
}

export class Exchange {
  readonly base: string;
  readonly retry: Retry;
  readonly #options: Options;

  constructor(url: string, options: Options, retry: Retry) {
    const parsed = /^https?:\/\/[^/]+/.test(url);
    if (!parsed) throw new TypeError(`${JSON.stringify(url)} is not the URL of a service: it must begin with http:// or https://`);
    this.base = url.replace(/\/+$/, '').replace(/\/v1$/, '');
    this.retry = retry;
    this.#options = options;
  }

  url(call: Call): string {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined && each !== null) query.append(name, String(each));
      }
    }
    const text = query.toString();
    return this.base + call.path + (text && `?${text}`);
  }

  lost(error: unknown): ConnectionLost {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return new ConnectionLost(`the service at ${this.base} cannot be reached: ${cause instanceof Error ? cause.message : String(cause)}`, { cause: error });
  }

  /** The answer to a call; throws a refusal. Null where the first copy of a request has done it, and no body came. */
  async send(call: Call, signal?: AbortSignal): Promise<unknown> {
    const attempts = new Attempts(this.retry);
    for (let second = false; ; second = true) {
      let failure: SkillRunnerError;
      try {
        const opened = await this.open(call, (this.#options.timeout ?? 30_000) + (call.wait ?? 0) * 1000, signal);
        try {
          if (opened.answer.ok) {
            const text = await opened.answer.text();
            // A browser takes a head that was cut off for a whole one, and the answer for one without a body.
            if (text === '' && opened.answer.status !== 204) throw new Error('the answer was cut off');
            return text === '' ? null : JSON.parse(text);
          }
          failure = await refusalOf(opened.answer);
        } finally {
          opened.close();
        }
        if (second && failure instanceof ApiError && call.doneCodes?.includes(failure.code)) return null;
      } catch (error) {
        failure = this.failure(error, signal);
      }
      if (!mayRepeat(call, failure)) throw failure;
      await attempts.pauseAfter(failure, signal);
    }
  }

  /** A broken connection as an error of this package; whatever else was thrown is thrown on. */
  failure(error: unknown, signal?: AbortSignal): ConnectionLost {
    if (signal?.aborted) throw signal.reason;
    return this.lost(error);
  }

  /** The begin of an answer. */
  async open(call: Call, patience = SILENCE, signal?: AbortSignal): Promise<Opened> {
    const abort = new AbortController();
    const stop = (): void => abort.abort(signal?.reason);
    const silent = (): void => abort.abort(new Error(`no answer for ${Math.round(patience / 1000)} s`));
    let timer = setTimeout(silent, patience);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    const close = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
      abort.abort();
    };
    const headers: Record<string, string> = { ...call.headers };
    if (this.#options.token !== undefined) headers['Authorization'] = `Bearer ${this.#options.token}`;
    const init: RequestInit = { method: call.method, headers, signal: abort.signal, redirect: 'error', cache: 'no-store' };
    if (this.#options.credentials !== undefined) init.credentials = this.#options.credentials;
    if (call.files !== undefined) {
      init.body = form(call.files);
    } else if (call.json !== undefined) {
      headers['Content-Type'] = 'application/json';
      init.body = JSON.stringify(call.json);
    }
    const send = this.#options.fetch ?? globalThis.fetch;
    try {
      const answer = await send(this.url(call), init);
      const pieces = async function* (): AsyncGenerator<Uint8Array, void> {
        const reader = answer.body?.getReader();
        for (;;) {
          clearTimeout(timer);
          timer = setTimeout(silent, patience);
          const piece = await reader?.read();
          if (piece === undefined || piece.done) return;
          yield piece.value;
        }
      };
      return { answer, pieces, close };
    } catch (error) {
      close();
      throw error;
    }
  }
}

function form(files: Record<string, FileContent>): FormData {
  const body = new FormData();
  for (const [name, content] of Object.entries(files)) {
    const blob = content instanceof Blob ? content : new Blob([content as BlobPart]);
    body.append(name, blob, (blob as Partial<File>).name ?? name);
  }
  return body;
}
