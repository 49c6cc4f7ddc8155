// Requests to the API of the service, which is all the pages know.
import { signal, useState, useEffect, useRef } from './view.js';

/** Whether the last request found no service. */
export const offline = signal(false);

/** Whether the service refused a request because nobody is logged in. */
export const refused = signal(false);

/** A refusal, as the service words it. */
export class ApiError extends Error {
  /** @param {number} status @param {{code: string, message: string, details?: unknown}} error */
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    /** @type {{path: string, message: string}[]} */
    this.details = Array.isArray(error.details) ? error.details : [];
    /** @type {Record<string, any>} */
    this.about = error.details && !Array.isArray(error.details) ? /** @type {any} */ (error.details) : {};
  }
}

/**
 * Asks the API.
 * @param {string} path
 * @param {{method?: string, json?: unknown, form?: FormData, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function api(path, { method, json, form, signal: abort } = {}) {
  /** @type {RequestInit} */
  const request = { method: method ?? (json !== undefined || form ? 'POST' : 'GET'), signal: abort };
  if (form) request.body = form;
  if (json !== undefined) {
    request.body = JSON.stringify(json);
    request.headers = { 'Content-Type': 'application/json' };
  }
  let answer;
  try {
    answer = await fetch(path, request);
  } catch (error) {
    if (!(error instanceof DOMException && error.name === 'AbortError')) offline.value = true;
    throw error;
  }
  const body = await answer.json().catch(() => null);
  // The example client may be there while the service behind it is not.
  if (!path.startsWith('/client')) offline.value = answer.status === 502 && body?.error?.code === 'SERVICE_UNREACHABLE';
  if (answer.status === 401 && path !== '/ui/session') refused.value = true;
  if (!answer.ok) throw new ApiError(answer.status, body?.error ?? { code: String(answer.status), message: answer.statusText });
  return body;
}

/**
 * What a request answers, asked again every `every` ms while the page is seen. Old content stays while new content is on its way.
 * @param {string | null} path
 * @param {{every?: number}} [options]
 */
export function useApi(path, { every = 0 } = {}) {
  const [state, setState] = useState(/** @type {{data: any, error: any, of: string | null}} */ ({ data: null, error: null, of: null }));
  const reload = useRef(() => {});
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let last = '';
    const ask = async () => {
      clearTimeout(timer);
      try {
        const data = await api(path, { signal: abort.signal });
        const text = JSON.stringify(data);
        if (text !== last) setState({ data, error: null, of: path });
        last = text;
      } catch (error) {
        if (abort.signal.aborted) return;
        setState((old) => ({ data: old.of === path ? old.data : null, error, of: path }));
        last = '';
      }
      const again = offline.value ? 2000 : every;
      if (again && !abort.signal.aborted) timer = setTimeout(() => (document.hidden ? wait() : ask()), again);
    };
    const wait = () => { timer = setTimeout(() => (document.hidden ? wait() : ask()), 1000); };
    reload.current = ask;
    ask();
    return () => { abort.abort(); clearTimeout(timer); };
  }, [path, every]);
  const fits = state.of === path;
  return { data: fits || state.data ? state.data : null, error: fits ? state.error : null, loading: !fits, reload: () => reload.current() };
}

/** The path of a run's route. */
export function runPath(/** @type {string} */ id, rest = '') {
  return `/v1/jobs/${encodeURIComponent(id)}${rest}`;
}
