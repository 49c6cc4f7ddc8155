// The log-in page: it takes the place of any page until the service lets the browser in, and then gives way to it.
import { html, useEffect, useRef, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { go, href, place } from '../lib/router.js';
import { ApiError } from '../lib/api.js';
import { loadSession, logIn, session } from '../lib/session.js';

/** Where to go after the log-in, if the address names a page of this service. */
function wanted() {
  if (place.value.path.join('/') !== 'log-in') return null;
  const to = place.value.query.get('to') ?? '';
  return to === '/docs' || to.startsWith(`${href([])}/`) ? to : href([]);
}

/** Leaves the address of the log-in page for the page that was wanted. */
export function leaveLogIn() {
  const to = wanted();
  if (to === '/docs') location.assign(to);
  else if (to) go(to, { replace: true });
}

/** What a refusal means to a person. */
function said(/** @type {unknown} */ error, /** @type {string} */ way) {
  if (error instanceof ApiError && error.code === 'TOO_MANY_FAILED_LOGINS') return t('login.wait', { seconds: error.about.seconds ?? '' });
  if (error instanceof ApiError && error.status === 401) return t(way === 'token' ? 'login.wrong_token' : 'login.wrong_password');
  if (error instanceof ApiError) return error.message;
  return t('offline.text');
}

export function LogIn() {
  const known = session.value;
  const ways = known?.ways ?? ['token'];
  const [chosen, choose] = useState(/** @type {string | null} */ (null));
  const way = chosen ?? ways[0];
  const [values, set] = useState({ token: '', username: '', password: '' });
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const first = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => { if (!known) loadSession(); }, []);
  useEffect(() => { first.current?.focus(); }, [way]);
  const typed = (/** @type {'token' | 'username' | 'password'} */ name) => (/** @type {any} */ event) => { set({ ...values, [name]: event.currentTarget.value }); setProblem(''); };
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await logIn(way === 'token' ? { token: values.token.trim() } : { username: values.username, password: values.password });
      leaveLogIn();
    } catch (error) {
      setProblem(said(error, way));
      setBusy(false);
      first.current?.focus();
    }
  };
  const invalid = problem ? 'true' : undefined;
  const described = problem ? 'login-problem' : undefined;
  const fields = way === 'token'
    ? html`<div class="field"><label class="label" for="login-token">${t('login.token')}</label>
        <input class="input mono" id="login-token" type="password" ref=${first} required autocomplete="current-password" autocapitalize="off" spellcheck=${false} aria-invalid=${invalid} aria-describedby=${`login-help ${described ?? ''}`.trim()} value=${values.token} onInput=${typed('token')} />
        <p class="help" id="login-help">${t('login.token_help')} <code>skill-runner token new NAME --scope run</code></p></div>`
    : html`<div class="field"><label class="label" for="login-name">${t('login.name')}</label>
        <input class="input" id="login-name" ref=${first} required autocomplete="username" autocapitalize="off" spellcheck=${false} aria-invalid=${invalid} aria-describedby=${described} value=${values.username} onInput=${typed('username')} /></div>
      <div class="field"><label class="label" for="login-password">${t('login.password')}</label>
        <input class="input" id="login-password" type="password" required autocomplete="current-password" aria-invalid=${invalid} aria-describedby=${described} value=${values.password} onInput=${typed('password')} /></div>`;
  return html`<div class="page log-in"><form class="card stack" onSubmit=${send} aria-labelledby="login-title">
    <h1 id="login-title">${t('login.title')}</h1>
    <p class="quiet">${t('login.why')}</p>
    ${fields}
    <p class="wrong" id="login-problem" role="alert">${problem}</p>
    <div class="row"><button class="button main" disabled=${busy}>${t(busy ? 'login.busy' : 'login.send')}</button>
      ${ways.length > 1 && html`<button type="button" class="link" onClick=${() => { choose(way === 'token' ? 'password' : 'token'); setProblem(''); }}>${t(way === 'token' ? 'login.use_password' : 'login.use_token')}</button>`}</div>
  </form></div>`;
}
