// Small components that every page uses.
import { html, signal, useEffect, useRef, useState } from '../lib/view.js';
import { t, maybe } from '../lib/i18n.js';
import { ago, exact, shortId } from '../lib/format.js';
import { href } from '../lib/router.js';
import { Source } from './source.js';

/** @type {Record<string, string>} */
const SHAPES = { queued: '○', running: '◐', waiting_user: '◆', succeeded: '●', failed: '✕', canceled: '⊘' };

/** A status by colour, shape and word. @param {{of: string}} props */
export function Status({ of }) {
  return html`<span class=${`status ${of}`}><span class="shape" aria-hidden="true">${SHAPES[of] ?? '·'}</span>${maybe(`status.${of}`, of)}</span>`;
}

/** A time, relative, with the exact one on hover. @param {{iso: string | null | undefined}} props */
export function Time({ iso }) {
  if (!iso) return null;
  return html`<time datetime=${iso} title=${exact(iso)} class="nowrap">${ago(iso)}</time>`;
}

/** What was last copied, for those who do not see it. */
export const said = signal('');

/** @param {string} text */
export function say(text) {
  said.value = text;
  setTimeout(() => { if (said.value === text) said.value = ''; }, 2500);
}

/** Two sheets. Fonts do not all have such a sign. */
function CopyIcon() {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><rect x="5.5" y="5.5" width="8" height="8" rx="1.5" /><path d="M10.5 3.5v-.2c0-.6-.4-1-1-1H3.3c-.6 0-1 .4-1 1v6.2c0 .6.4 1 1 1h.2" /></svg>`;
}

/** A cross-hair. */
export function FromIcon() {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="4.5" /><path d="M8 1.5v4M8 10.5v4M1.5 8h4M10.5 8h4" /></svg>`;
}

/** @param {{text: string, label?: string}} props */
export function Copy({ text, label }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(t('copy.done'));
    } catch {
      say(t('copy.failed'));
    }
  };
  const name = label ?? t('copy.label');
  return html`<button type="button" class="copy" onClick=${copy} title=${name} aria-label=${name}><${CopyIcon} /></button>`;
}

/** An id, short, copied whole by a click. @param {{id: string, link?: boolean}} props */
export function Id({ id, link }) {
  const short = html`<span class="id" title=${id}>${shortId(id)}</span>`;
  return html`<span class="nowrap">${link ? html`<a href=${href(['runs', id])}>${short}</a>` : short}<${Copy} text=${id} label=${t('copy.id')} /></span>`;
}

/** @param {{title: any, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p>${title}</p>${children}</div>`;
}

/** Why a request failed, in the service's words. @param {{error: any, retry?: () => void}} props */
export function Problem({ error, retry }) {
  if (!error) return null;
  const text = error.code ? error.message : t('offline.short');
  return html`<div class="note bad fade" role="alert">
    <p class="any">${text}</p>
    ${error.code && html`<p class="small quiet"><code>${error.code}</code></p>`}
    ${error.status === 401 && html`<p class="small">${t('error.login')}</p>`}
    ${retry && html`<p><button type="button" class="link" onClick=${retry}>${t('action.retry')}</button></p>`}
  </div>`;
}

/** Waits a moment before it says so: most answers are there at once. */
export function Loading() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return html`<div class="empty" role="status">${late ? t('loading') : ''}</div>`;
}

/** @param {{title: any, tools?: any, children?: any, flush?: boolean, id?: string, class?: string}} props */
export function Card({ title, tools, children, flush, id, class: more = '' }) {
  return html`<section class=${`card ${more}`} aria-label=${typeof title === 'string' ? title : undefined} id=${id}>
    <header><h2 class="grow">${title}</h2>${tools}</header>
    ${flush ? children : html`<div class="body">${children}</div>`}
  </section>`;
}

/**
 * Tabs in the usual way: arrows move, the chosen one is in the tab order.
 * @param {{label: string, tabs: {id: string, name: any}[], chosen: string, choose: (id: string) => void}} props
 */
export function Tabs({ label, tabs, chosen, choose }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = (at + step + tabs.length) % tabs.length;
    choose(tabs[next].id);
    /** @type {HTMLElement | undefined} */ (place.current?.querySelectorAll('button')[next])?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${place} onKeyDown=${move}>
    ${tabs.map((tab) => html`<button type="button" role="tab" key=${tab.id} aria-selected=${tab.id === chosen ? 'true' : 'false'} tabindex=${tab.id === chosen ? 0 : -1} onClick=${() => choose(tab.id)}>${tab.name}</button>`)}
  </div>`;
}

/** Text with a button that copies it. @param {{text: string, label: string, language?: string}} props */
export function Code({ text, label, language }) {
  return html`<div class="code held" role="group" aria-label=${label}><pre class="grow" tabindex="0"><${Source} text=${text} language=${language} /></pre><${Copy} text=${text} /></div>`;
}

/** Whether a media query holds. @param {string} query */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const change = () => setHolds(list.matches);
    list.addEventListener('change', change);
    return () => list.removeEventListener('change', change);
  }, [query]);
  return holds;
}

/**
 * A question before something that cannot be taken back.
 * @param {{title: string, text: string, action: string, open: boolean, close: () => void, act: () => void}} props
 */
export function Confirm({ title, text, action, open, close, act }) {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (open) place.current?.showModal();
    else place.current?.close();
  }, [open]);
  return html`<dialog ref=${place} onClose=${close} aria-label=${title}>
    <div class="stack"><h2>${title}</h2><p>${text}</p>
      <div class="row"><button type="button" class="button risk" onClick=${() => { close(); act(); }}>${action}</button>
      <button type="button" class="button" onClick=${close}>${t('action.keep')}</button></div></div>
  </dialog>`;
}
