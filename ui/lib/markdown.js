// Markdown of skills and engines as elements that hold no script, form, frame or foreign resource.
import { html, useRef, useLayoutEffect } from './view.js';
import { policy, read } from './reading.js';
import DOMPurify from '../vendor/purify.js';

const ALLOWED = {
  ALLOWED_TAGS: ['p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'strong', 'em', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
  ALLOWED_ATTR: ['href', 'title', 'align', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  RETURN_DOM_FRAGMENT: true,
  TRUSTED_TYPES_POLICY: policy,
};
const MAX = 200_000;

/** HTML as elements. @param {string} made */
function sanitized(made) {
  const fragment = /** @type {DocumentFragment} */ (/** @type {unknown} */ (DOMPurify.sanitize(made, ALLOWED)));
  for (const link of fragment.querySelectorAll('a')) {
    link.rel = 'noopener noreferrer nofollow';
    link.target = '_blank';
  }
  // A page has its own headings; those of a text stand below them.
  for (const heading of fragment.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const below = document.createElement(`h${Math.min(6, Number(heading.localName[1]) + 2)}`);
    below.append(...heading.childNodes);
    heading.replaceWith(below);
  }
  for (const block of fragment.querySelectorAll('pre')) block.tabIndex = 0;
  return fragment;
}

/** The text as it is until it is read, and for good if it cannot be read soon. @param {{text: string}} props */
export function Markdown({ text }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const done = useRef(/** @type {string | null} */ (null));
  useLayoutEffect(() => {
    const shown = text.slice(0, MAX);
    const show = (/** @type {Node | string} */ content) => {
      place.current?.replaceChildren(content);
      place.current?.dispatchEvent(new Event('shown', { bubbles: true }));
    };
    // A message that grows stays as it was until it is read again.
    if (done.current === null || !text.startsWith(done.current)) show(shown);
    return read(shown, undefined, (made) => {
      done.current = made && text;
      if (made !== null) return show(sanitized(made));
      const plain = document.createElement('pre');
      plain.tabIndex = 0;
      plain.textContent = shown;
      return show(plain);
    });
  }, [text]);
  return html`<div class="md" ref=${place}></div>`;
}
