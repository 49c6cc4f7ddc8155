// What can go wrong: a refusal of the service, or a connection that does not come back.

import type { Flaw } from './api.js';
import { HINTS } from './codes.js';

/** Any error of this package. */
export class SkillRunnerError extends Error {
  override name = 'SkillRunnerError';
}

/** The service could not be reached, or the connection broke, more often than `retry` allows. */
export class ConnectionLost extends SkillRunnerError {
  override name = 'ConnectionLost';
}

/** The time that a caller gave is over; the run goes on. */
export class WaitTimeout extends SkillRunnerError {
  override name = 'WaitTimeout';
}

export interface Refusal {
  status: number;
  code: string;
  message: string;
  details: Flaw[] | Record<string, unknown>;
  requestId: string | null;
  retryAfter: number | null;
}

/** The service refused a request. What was refused has changed nothing. */
export class ApiError extends SkillRunnerError {
  override name = 'ApiError';
  readonly status: number;
  /** One of the codes of docs/errors.md; programs go by it. */
  readonly code: string;
  /** What to do about this code; empty for a code that this version does not know. */
  readonly hint: string;
  /** The places that are wrong, or an object with more about the cause. */
  readonly details: Flaw[] | Record<string, unknown>;
  /** The request id of the run that it is about. */
  readonly requestId: string | null;
  /** Seconds after which to try again, where the service says so. */
  readonly retryAfter: number | null;

  constructor(refusal: Refusal) {
    super(`${refusal.code}: ${refusal.message}`);
    this.status = refusal.status;
    this.code = refusal.code;
    this.hint = HINTS[refusal.code] ?? '';
    this.details = refusal.details;
    this.requestId = refusal.requestId;
    this.retryAfter = refusal.retryAfter;
  }
}

/** 400, 405, 413, 415, 416, 422 and their like: the request is wrong in itself. */
export class InvalidRequest extends ApiError {
  override name = 'InvalidRequest';
}

/** 401: a token is needed, or another one. */
export class Unauthorized extends ApiError {
  override name = 'Unauthorized';
}

/** 403: the token does not allow it, or the host or origin is refused. */
export class Forbidden extends ApiError {
  override name = 'Forbidden';
}

/** 404 and 410: there is no such thing, or not any more. */
export class NotFound extends ApiError {
  override name = 'NotFound';
}

/** 409: the run is not in a state that allows it. */
export class Conflict extends ApiError {
  override name = 'Conflict';
}

/** 429 and 503: try again after `retryAfter` seconds. */
export class Busy extends ApiError {
  override name = 'Busy';
}

/** Any other 5xx: the service itself failed. */
export class ServerError extends ApiError {
  override name = 'ServerError';
}

const KINDS: Record<number, typeof ApiError> = {
  401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: NotFound, 429: Busy, 503: Busy,
};

/** The error that an answer tells of. */
export async function refusalOf(answer: Response): Promise<ApiError> {
  const { status } = answer;
  const Kind = KINDS[status] ?? (status >= 500 ? ServerError : InvalidRequest);
  const after = answer.headers.get('retry-after') ?? '';
  const retryAfter = /^\d+$/.test(after) ? Number(after) : null;
  const text = await answer.text();
  try {
    const { code, message, details, request_id: requestId } = JSON.parse(text).error;
    if (typeof code === 'string' && typeof message === 'string') return new Kind({ status, code, message, details, requestId, retryAfter });
  } catch {
    // Not the service's own words: a proxy stands before it, or it is another service.
  }
  const message = `status ${status} without an error of the service; is this its address?`;
  return new Kind({ status, code: 'UNKNOWN', message, details: {}, requestId: null, retryAfter });
}
