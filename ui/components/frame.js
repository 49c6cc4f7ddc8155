// The frame of every page: navigation, the state of the connection, and the keys that work everywhere.
import { html, signal, useEffect, useRef } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { go, href } from '../lib/router.js';
import { offline } from '../lib/api.js';
import { said } from './basic.js';

/** A page that is a key away. @typedef {{path: string[], key: string, shortcut: string}} Entry */

const helpOpen = signal(false);

/** Whether keys go into what has the focus. */
function typing(/** @type {EventTarget | null} */ target) {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

/** From now on the keys work. @param {Entry[]} nav */
export function startKeys(nav) {
  let after = '';
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === '?') {
      helpOpen.value = true;
      return;
    }
    if (after === 'g') {
      const found = nav.find((entry) => entry.shortcut === event.key);
      if (found) go(href(found.path));
    }
    after = event.key;
    if (event.key === '/') {
      const search = document.querySelector('[data-search]');
      if (search instanceof HTMLElement) {
        event.preventDefault();
        search.focus();
      }
    }
  });
}

/** @param {{nav: Entry[], more: string[][]}} props */
function Help({ nav, more }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  const keys = [...nav.map((entry) => [`g ${entry.shortcut}`, t(entry.key)]), ['/', t('keys.search')], ...more, ['Ctrl+Enter', t('keys.send')], ['?', t('keys.help')], ['Esc', t('keys.close')]];
  return html`<dialog ref=${dialog} onClose=${() => { helpOpen.value = false; }} aria-label=${t('keys.title')}>
    <div class="stack"><h2>${t('keys.title')}</h2>
      <dl class="facts">${keys.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
      <div><button type="button" class="button" onClick=${() => { helpOpen.value = false; }}>${t('action.close')}</button></div></div>
  </dialog>`;
}

/**
 * @param {{brand: string, nav: Entry[], hidden?: boolean, title: string, path: string[], first: string | undefined, keys: string[][], tools?: any, children?: any}} props
 * `hidden`: no navigation is shown. `first` is the part of the address that the chosen entry begins with.
 */
export function Frame({ brand, nav, hidden = false, title, path, first, keys, tools, children }) {
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useRef(path.join('/'));
  useEffect(() => { document.title = `${title} · ${brand}`; }, [title]);
  useEffect(() => {
    // A new page begins at its begin, for those who hear it, too.
    if (seen.current !== path.join('/')) main.current?.focus({ preventScroll: true });
    seen.current = path.join('/');
  }, [path.join('/')]);
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); main.current?.focus(); }}>${t('nav.skip')}</a>
    <header class="masthead"><nav aria-label=${t('nav.label')}>
      <a class="brand" href=${href([])}><img src="/ui/static/icon.svg" alt="" width="20" height="20" />${brand}</a>
      ${!hidden && nav.map((entry) => html`<a href=${href(entry.path)} aria-current=${entry.path[0] === first ? 'page' : undefined}>${t(entry.key)}</a>`)}
      <span class="grow"></span>
      ${tools}
      <button type="button" class="copy" onClick=${() => { helpOpen.value = true; }} aria-label=${t('keys.title')} title=${t('keys.title')}><kbd>?</kbd></button>
    </nav></header>
    ${offline.value && html`<div class="offline" role="status">${t('offline.text')}</div>`}
    <main id="main" tabindex="-1" ref=${main}>${children}</main>
    <${Help} nav=${nav} more=${keys} />
    <div role="status" aria-live="polite" class=${said.value ? 'toast' : 'out'}>${said.value}</div>`;
}
