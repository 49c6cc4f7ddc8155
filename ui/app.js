// The user interface of the service: the page that the address names, in its frame.
import { html, render } from './lib/view.js';
import { loadTexts, t } from './lib/i18n.js';
import { href, place, startRouter } from './lib/router.js';
import { loadSession, logOut, mustLogIn, session } from './lib/session.js';
import { Empty, say } from './components/basic.js';
import { Frame, startKeys } from './components/frame.js';
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
  const keys = [['↑ ↓', t('keys.events')], ['Home End', t('keys.ends')], ['+ −', t('keys.zoom')]];
  return html`<${Frame} brand="skill-runner" nav=${NAV} hidden=${closed} title=${title} path=${path} first=${path[0] === 'runs' ? undefined : path[0]} keys=${keys} tools=${html`<${Out} />`}>${content}<//>`;
}

await Promise.all([loadTexts(), loadSession()]);
if (!mustLogIn()) leaveLogIn();
startRouter();
startKeys(NAV);
const root = document.getElementById('app');
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
