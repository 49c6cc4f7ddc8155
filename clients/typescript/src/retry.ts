// When a request is sent again, and after which pause.

import { Busy, type SkillRunnerError } from './errors.js';

/**
 * How often a broken connection or a busy service is tried again. Only requests that can be repeated are: reads, and writes whose second
 * copy changes nothing (a create has an idempotency key). A stream counts its failures anew after each event that it brought.
 */
export interface Retry {
  /** Attempts in a row, the first one included. */
  attempts: number;
  /** Milliseconds before the second attempt; doubled each time. */
  firstPause: number;
  longestPause: number;
}

export const RETRY: Retry = { attempts: 8, firstPause: 200, longestPause: 10_000 };

/** The attempts of one request or stream. */
export class Attempts {
  #failed = 0;

  constructor(private readonly retry: Retry) {}

  /** Something came through: failures are counted anew. */
  progress(): void {
    this.#failed = 0;
  }

  /** Waits before the next attempt; throws the failure where there is none. */
  async pauseAfter(failure: SkillRunnerError, signal?: AbortSignal): Promise<void> {
    this.#failed += 1;
    if (this.#failed >= this.retry.attempts) throw failure;
    const pause = Math.min(this.retry.firstPause * 2 ** (this.#failed - 1), this.retry.longestPause);
    // Scattered, so that many clients do not come back at once.
    const scattered = pause * (0.5 + Math.random() / 2);
    const asked = failure instanceof Busy && failure.retryAfter !== null ? failure.retryAfter * 1000 : 0;
    await sleep(Math.max(scattered, asked), signal);
  }
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener('abort', stop); resolve(); }, milliseconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}
