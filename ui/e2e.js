// The example client: skills, a form, the run as it goes, its result, and recordings, over the API of a service alone.
import { html, render } from './lib/view.js';
import { loadTexts, t } from './lib/i18n.js';
import { href, place, startRouter } from './lib/router.js';
import { refused, useApi } from './lib/api.js';
import { Empty } from './components/basic.js';
import { Frame, startKeys } from './components/frame.js';
import { RunForm } from './pages/run-form.js';
import { Choose } from './pages/e2e/choose.js';
import { OneOff } from './pages/e2e/one-off.js';
import { Observe } from './pages/e2e/observe.js';
import { ResultPage } from './pages/e2e/result.js';
import { Playback, Recordings } from './pages/e2e/recordings.js';

const NAV = [
  { path: [], key: 'nav.skills', shortcut: 's' },
  { path: ['one-off'], key: 'e2e.oneoff', shortcut: 'o' },
  { path: ['recordings'], key: 'e2e.recordings', shortcut: 'r' },
];

/** The page of an address, with the name for the title of the window. */
function page(/** @type {string[]} */ path) {
  const [first, second, third] = path;
  if (path.length === 0) return [t('nav.skills'), html`<${Choose} />`];
  if (first === 'one-off' && path.length === 1) return [t('e2e.oneoff'), html`<${OneOff} />`];
  if (first === 'skills' && second && (path.length === 2 || (third === 'run' && path.length === 3))) return [t('form.title', { skill: second }), html`<${RunForm} id=${second} key=${second} />`];
  if (first === 'runs' && second && path.length === 2) return [t('run.title'), html`<${Observe} id=${second} key=${second} />`];
  if (first === 'runs' && third === 'result' && path.length === 3) return [t('result.title'), html`<${ResultPage} id=${second} key=${second} />`];
  if (first === 'recordings' && path.length === 1) return [t('e2e.recordings'), html`<${Recordings} />`];
  if (first === 'recordings' && path.length === 2) return [t('e2e.playback'), html`<${Playback} id=${second} key=${second} />`];
  return [t('lost.title'), html`<h1 class="out">${t('lost.title')}</h1><${Empty} title=${t('lost.text')}><p><a href=${href([])}>${t('nav.skills')}</a></p><//>`];
}

/** The service that this client uses. */
function ServiceName() {
  const { data } = useApi('/client');
  return data && html`<span class="quiet small wide" title=${t('e2e.service')}>${data.service}</span>`;
}

function App() {
  const { path } = place.value;
  const [title, content] = page(path);
  return html`<${Frame} brand=${t('e2e.brand')} nav=${NAV} title=${title} path=${path} first=${path[0] === 'skills' ? undefined : path[0]} keys=${[['← →', t('keys.steps')]]} tools=${html`<${ServiceName} />`}>
    ${refused.value && html`<div class="page"><p class="note bad" role="alert">${t('e2e.refused')}</p></div>`}${content}<//>`;
}

await loadTexts();
startRouter();
startKeys(NAV);
const root = document.getElementById('app');
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
