// The address is the state: pages read it, and links change it without a new page.
import { signal } from './view.js';

/** Below which address the pages are: the page itself says it. */
const BASE = document.documentElement.dataset.base ?? '/ui';

function read() {
  const path = location.pathname.slice(BASE.length).split('/').filter(Boolean).map(safely);
  return { path, query: new URLSearchParams(location.search) };
}

function safely(/** @type {string} */ part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = signal(read());

/**
 * The address of a page.
 * @param {string[]} path
 * @param {Record<string, string | number | null | undefined> | URLSearchParams} [query]
 */
export function href(path, query = {}) {
  const given = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = given.filter(([, value]) => value !== null && value !== undefined && value !== '').map(([key, value]) => [key, String(value)]);
  const search = new URLSearchParams(kept).toString();
  return ([BASE, ...path.map(encodeURIComponent)].join('/') || '/') + (search ? `?${search}` : '');
}

/** Goes to an address of the user interface. */
export function go(/** @type {string} */ to, { replace = false } = {}) {
  const moved = new URL(to, location.href).pathname !== location.pathname;
  history[replace ? 'replaceState' : 'pushState'](null, '', to);
  place.value = read();
  if (moved) scrollTo(0, 0);
}

/** The same page with other query parameters; null removes one. */
export function withQuery(/** @type {Record<string, string | number | null | undefined>} */ changes) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') query.delete(key);
    else query.set(key, String(value));
  }
  return location.pathname + (query.size ? `?${query}` : '');
}

export function startRouter() {
  addEventListener('popstate', () => { place.value = read(); });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (link.pathname.startsWith('/v1/') || (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`))) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
