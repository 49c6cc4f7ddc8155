// Who is logged in in this browser. The service keeps the session in a cookie that no script reads.
import { signal } from './view.js';
import { api, refused } from './api.js';

/**
 * What the service says about this browser; null until it has said something.
 * @typedef {{log_in: boolean, ways: string[], access: string, name: string | null, session: boolean}} Session
 */
export const session = signal(/** @type {Session | null} */ (null));

function now(/** @type {Session} */ told) {
  session.value = told;
  refused.value = false;
}

/** Asks the service. One that cannot be reached leaves the question open: the pages say that. */
export async function loadSession() {
  try {
    now(await api('/ui/session'));
  } catch {
    session.value = null;
  }
}

/** @param {{token: string} | {username: string, password: string}} credentials */
export async function logIn(credentials) {
  now(await api('/ui/session', { json: credentials }));
}

export async function logOut() {
  now(await api('/ui/session', { method: 'DELETE' }));
}

/** Whether a person has to log in before a page can show anything. */
export function mustLogIn() {
  return refused.value || session.value?.log_in === true;
}
