// A client of the skill-runner service for browsers and Node.js.

export type * as api from './api.js';
export type { FileContent } from './calls.js';
export * from './client.js';
export * from './errors.js';
export type { Retry } from './retry.js';
