// Every request of the API as a value. All paths stand here.

/** The content of a file to upload. */
export type FileContent = Blob | Uint8Array | ArrayBuffer | string;

export interface Call {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  query?: Record<string, unknown>;
  headers?: Record<string, string>;
  json?: unknown;
  /** Each part's name and content. */
  files?: Record<string, FileContent>;
  /** False where a second copy would do something again, so that it is not sent by itself. */
  repeatable?: boolean;
  /** Codes that say, to a second copy, that the first one has done it. */
  doneCodes?: readonly string[];
  /** Seconds that the service may hold the answer back. */
  wait?: number | undefined;
}

const atRun = (run: string, rest = ''): string => `/v1/jobs/${encodeURIComponent(run)}${rest}`;
const get = (path: string, query: Record<string, unknown> = {}): Call => ({ method: 'GET', path, query });

/** A key that no other request has. */
export function newKey(): string {
  // Browsers have randomUUID in secure contexts alone, and Node.js 18 has no global crypto. A key must be unique, not secret.
  const { crypto } = globalThis as { crypto?: Crypto };
  if (typeof crypto?.randomUUID === 'function') return crypto.randomUUID();
  const bytes = new Uint8Array(16).map(() => Math.floor(Math.random() * 256));
  crypto?.getRandomValues?.(bytes);
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function creating(path: string, json: unknown, key: string | undefined, wait: number | undefined): Call {
  return { method: 'POST', path, json, query: { wait }, headers: { 'Idempotency-Key': key ?? newKey() }, wait };
}

export const calls = {
  create: (body: unknown, key?: string, wait?: number) => creating('/v1/jobs', body, key, wait),
  createTemporary: (body: unknown, key?: string) => creating('/v1/temp-skill-runs', body, key, undefined),
  rerun: (run: string, changes: unknown, key?: string, wait?: number) => creating(atRun(run, '/rerun'), changes, key, wait),
  // Whoever sends the files again after a lost answer is told that they are there.
  upload: (run: string, files: Record<string, FileContent>): Call => ({
    method: 'POST', path: atRun(run, '/upload'), files, doneCodes: ['ALREADY_UPLOADED', 'RUN_FINAL'],
  }),
  job: (run: string, atSeq?: number) => get(atRun(run), { at_seq: atSeq }),
  runs: (filters: Record<string, unknown>) => get('/v1/jobs', filters),
  result: (run: string) => get(atRun(run, '/result')),
  cancel: (run: string): Call => ({ method: 'POST', path: atRun(run, '/cancel') }),
  delete: (run: string): Call => ({ method: 'DELETE', path: atRun(run), doneCodes: ['REQUEST_NOT_FOUND'] }),
  pending: (run: string) => get(atRun(run, '/interaction/pending')),
  reply: (run: string, question: number, response: unknown, key?: string): Call => ({
    method: 'POST', path: atRun(run, '/interaction/reply'),
    json: { interaction_id: question, response, idempotency_key: key ?? newKey() },
  }),
  events: (run: string, cursor: number): Call => ({ ...get(atRun(run, '/events'), { cursor }), headers: { Accept: 'text/event-stream' } }),
  history: (run: string, fromSeq: number, toSeq?: number) => get(atRun(run, '/events/history'), { from_seq: fromSeq, to_seq: toSeq }),
  logs: (run: string) => get(atRun(run, '/logs')),
  logRange: (run: string, stream: string, from: number, to?: number) => get(atRun(run, '/logs/range'), { stream, byte_from: from, byte_to: to }),
  explain: (run: string, path?: string) => get(atRun(run, '/explain'), { path }),
  artifacts: (run: string) => get(atRun(run, '/artifacts')),
  artifact: (run: string, path: string) => get(atRun(run, `/artifacts/${path.split('/').map(encodeURIComponent).join('/')}`)),
  bundle: (run: string) => get(atRun(run, '/bundle')),
  skills: () => get('/v1/skills'),
  skill: (id: string) => get(`/v1/skills/${encodeURIComponent(id)}`),
  // A second copy is refused because its version is in place, so it is not sent by itself.
  installSkill: (file: FileContent, wait: number): Call => ({
    method: 'POST', path: '/v1/skill-packages/install', query: { wait }, files: { file }, repeatable: false, wait,
  }),
  engines: () => get('/v1/engines'),
  system: () => get('/v1/system'),
};
