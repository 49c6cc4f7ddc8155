// Markdown of skills and engines as elements that hold no script, form, frame or foreign resource.
import { html, useRef, useLayoutEffect } from './view.js';
import { Marked } from '../vendor/marked.js';
import DOMPurify from '../vendor/purify.js';

const ALLOWED = {
  ALLOWED_TAGS: ['p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'strong', 'em', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
  ALLOWED_ATTR: ['href', 'title', 'align', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  RETURN_DOM_FRAGMENT: true,
};
const MAX = 200_000;

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

// HTML in a text is shown as it is written, and an image by its name: nothing is fetched for a text.
const markdown = new Marked({ gfm: true, async: false, renderer: {
  html: (/** @type {{text: string}} */ { text }) => escaped(text),
  image: (/** @type {{text: string, href: string}} */ { text, href }) => escaped(`[${text || href}]`),
} });

/** What a text costs to read grows by the square of its marks between two empty lines; so many take a tenth of a second. */
const MARKS_MAX = 2000;
/** A list as deep as this is none. */
const DEEP = /^[ \t]{200,}[-+*]/m;

/** The text as HTML; none if it takes too long, or too much stack, to read. @param {string} text @returns {string | null} */
function rendered(text) {
  let cost = 0;
  for (const block of text.split(/\n[ \t]*\n/)) cost += (block.match(/[*_~`[\]<>\\]/g)?.length ?? 0) ** 2;
  if (cost > MARKS_MAX ** 2 || DEEP.test(text)) return null;
  try {
    return /** @type {string} */ (markdown.parse(text));
  } catch {
    return null;
  }
}

/** @param {string} text @returns {DocumentFragment} */
export function sanitized(text) {
  const shown = text.slice(0, MAX);
  const made = rendered(shown);
  if (made === null) {
    const plain = document.createElement('pre');
    plain.tabIndex = 0;
    plain.textContent = shown;
    const whole = document.createDocumentFragment();
    whole.append(plain);
    return whole;
  }
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

/** @param {{text: string}} props */
export function Markdown({ text }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { place.current?.replaceChildren(sanitized(text)); }, [text]);
  return html`<div class="md" ref=${place}></div>`;
}
