// The frame of every page: navigation, the state of the connection, keyboard shortcuts, and the page the address names.
import { html, render, signal, useEffect, useRef } from './lib/view.js';
import { loadTexts, t } from './lib/i18n.js';
import { go, href, place, startRouter } from './lib/router.js';
import { offline } from './lib/api.js';
import { loadSession, logOut, mustLogIn, session } from './lib/session.js';
import { Empty, said, say } from './components/basic.js';
import { Home } from './pages/home.js';
import { Skills } from './pages/skills.js';
import { SkillPage } from './pages/skill.js';
import { RunForm } from './pages/run-form.js';
import { RunPage } from './pages/run.js';
import { Engines } from './pages/engines.js';
import { System } from './pages/system.js';
import { AuditPage } from './pages/audit.js';
import { Components } from './pages/components.js';
import { LogIn, leaveLogIn } from './pages/log-in.js';

const helpOpen = signal(false);

const NAV = [
  { path: [], key: 'nav.home', shortcut: 'h' },
  { path: ['skills'], key: 'nav.skills', shortcut: 's' },
  { path: ['engines'], key: 'nav.engines', shortcut: 'e' },
  { path: ['audit'], key: 'nav.audit', shortcut: 'a' },
  { path: ['system'], key: 'nav.system', shortcut: 'y' },
];

/** The page of an address, with the name for the title of the window. */
function page(/** @type {string[]} */ path) {
  const [first, second, third] = path;
  if (path.length === 0) return [t('nav.home'), html`<${Home} />`];
  if (first === 'runs' && second && path.length === 2) return [t('run.title'), html`<${RunPage} id=${second} key=${second} />`];
  if (first === 'skills' && path.length === 1) return [t('nav.skills'), html`<${Skills} />`];
  if (first === 'skills' && path.length === 2) return [second, html`<${SkillPage} id=${second} key=${second} />`];
  if (first === 'skills' && third === 'run' && path.length === 3) return [t('form.title', { skill: second }), html`<${RunForm} id=${second} key=${second} />`];
  if (first === 'engines' && path.length === 1) return [t('nav.engines'), html`<${Engines} />`];
  if (first === 'system' && path.length === 1) return [t('nav.system'), html`<${System} />`];
  if (first === 'audit' && path.length === 1) return [t('nav.audit'), html`<${AuditPage} />`];
  if (first === 'components' && path.length === 1) return [t('components.title'), html`<${Components} />`];
  return [t('lost.title'), html`<h1 class="out">${t('lost.title')}</h1><${Empty} title=${t('lost.text')}><p><a href=${href([])}>${t('nav.home')}</a></p><//>`];
}

/** Whether keys go into what has the focus. */
function typing(/** @type {EventTarget | null} */ target) {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

let after = '';
function shortcut(/** @type {KeyboardEvent} */ event) {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (event.key === '?') {
    helpOpen.value = true;
    return;
  }
  if (after === 'g') {
    const found = NAV.find((entry) => entry.shortcut === event.key);
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
}

function Help() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  const keys = [...NAV.map((entry) => [`g ${entry.shortcut}`, t(entry.key)]), ['/', t('keys.search')], ['↑ ↓', t('keys.events')], ['Home End', t('keys.ends')], ['Ctrl+Enter', t('keys.send')], ['?', t('keys.help')], ['Esc', t('keys.close')]];
  return html`<dialog ref=${dialog} onClose=${() => { helpOpen.value = false; }} aria-label=${t('keys.title')}>
    <div class="stack"><h2>${t('keys.title')}</h2>
      <dl class="facts">${keys.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
      <div><button type="button" class="button" onClick=${() => { helpOpen.value = false; }}>${t('action.close')}</button></div></div>
  </dialog>`;
}

/** Who is logged in, and the way out. */
function Out() {
  if (!session.value?.session) return null;
  const out = () => logOut().catch((error) => say(error.message));
  return html`<span class="who quiet small wide" title=${t('login.access', { access: session.value.access })}>${session.value.name ?? ''}</span>
    <button type="button" class="button s" onClick=${out}>${t('login.out')}</button>`;
}

function App() {
  const { path } = place.value;
  const closed = mustLogIn();
  const [title, content] = closed ? [t('login.title'), html`<${LogIn} />`] : page(path);
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useRef(path.join('/'));
  useEffect(() => { document.title = `${title} · skill-runner`; }, [title]);
  useEffect(() => {
    // A new page begins at its begin, for those who hear it, too.
    if (seen.current !== path.join('/')) main.current?.focus({ preventScroll: true });
    seen.current = path.join('/');
  }, [path.join('/')]);
  const first = path[0] === 'runs' ? undefined : path[0];
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); main.current?.focus(); }}>${t('nav.skip')}</a>
    <header class="masthead"><nav aria-label=${t('nav.label')}>
      <a class="brand" href=${href([])}><img src="/ui/static/icon.svg" alt="" width="20" height="20" />skill-runner</a>
      ${!closed && NAV.map((entry) => html`<a href=${href(entry.path)} aria-current=${entry.path[0] === first ? 'page' : undefined}>${t(entry.key)}</a>`)}
      <span class="grow"></span>
      <${Out} />
      <button type="button" class="copy" onClick=${() => { helpOpen.value = true; }} aria-label=${t('keys.title')} title=${t('keys.title')}><kbd>?</kbd></button>
    </nav></header>
    ${offline.value && html`<div class="offline" role="status">${t('offline.text')}</div>`}
    <main id="main" tabindex="-1" ref=${main}>${content}</main>
    <${Help} />
    <div role="status" aria-live="polite" class=${said.value ? 'toast' : 'out'}>${said.value}</div>`;
}

await Promise.all([loadTexts(), loadSession()]);
if (!mustLogIn()) leaveLogIn();
startRouter();
addEventListener('keydown', shortcut);
const root = document.getElementById('app');
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
