// The worker of reading.js: makes HTML of Markdown, and finds the words of a source that have a meaning in its language.
import { Marked } from '../vendor/marked.js';
import hljs from '../vendor/highlight.js';

/** Most tags of a text, and most pieces of a source, that a page draws at once. */
const MOST = 20_000;
/** Longest HTML. */
const MOST_HTML = 2_000_000;

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

// HTML in a text is shown as it is written, and an image by its name: nothing is fetched for a text.
const markdown = new Marked({ gfm: true, async: false, renderer: {
  html: (/** @type {{text: string}} */ { text }) => escaped(text),
  image: (/** @type {{text: string, href: string}} */ { text, href }) => escaped(`[${text || href}]`),
} });

/** What a scope of the library looks like. @type {Record<string, string>} */
const LOOKS = {
  keyword: 'word', selector: 'word', 'selector-tag': 'word', built_in: 'name', title: 'name', name: 'name', section: 'name', 'selector-class': 'name', 'selector-id': 'name', type: 'name',
  string: 'text', regexp: 'text', symbol: 'text', link: 'text', code: 'text', number: 'value', literal: 'value', bullet: 'value', attr: 'key', attribute: 'key', property: 'key', variable: 'key',
  comment: 'aside', quote: 'aside', meta: 'aside', doctag: 'aside', addition: 'plus', deletion: 'minus',
};

/** Takes what the library finds as pieces of text, each with its look; of nested scopes the innermost that has one counts. */
class Pieces {
  constructor() {
    /** @type {{text: string, look: string}[]} */
    this.found = [];
    /** @type {string[]} */
    this.open = [];
  }

  addText(/** @type {string} */ text) {
    const [look, last] = [this.open[this.open.length - 1] ?? '', this.found[this.found.length - 1]];
    if (last?.look === look) last.text += text;
    else if (text) this.found.push({ text, look });
  }

  openNode(/** @type {string} */ scope) {
    this.open.push(LOOKS[scope] ?? LOOKS[scope.split(/\./)[0]] ?? this.open[this.open.length - 1] ?? '');
  }

  closeNode() {
    this.open.pop();
  }

  startScope(/** @type {string} */ scope) {
    this.openNode(scope);
  }

  endScope() {
    this.closeNode();
  }

  __addSublanguage(/** @type {Pieces} */ other) {
    this.found.push(...other.found);
  }

  finalize() {}

  toHTML() {
    return '';
  }
}

hljs.configure({ __emitter: Pieces });

/** @param {string} text @param {string | undefined} language */
function read(text, language) {
  if (language) {
    const { found } = /** @type {Pieces} */ (hljs.highlight(text, { language, ignoreIllegals: true })._emitter);
    return found.length > MOST ? null : found;
  }
  const made = markdown.parse(text);
  return made.length > MOST_HTML || made.split('<').length > MOST ? null : made;
}

// Tells the page that it begins, once what it needs for the language is there, and then what it has read.
self.onmessage = async ({ data: { text, language } }) => {
  try {
    // Some languages have parts in another.
    for (const name of language === 'markdown' ? ['xml', language] : language === 'xml' ? ['css', 'javascript', language] : language ? [language] : []) {
      if (!hljs.getLanguage(name)) hljs.registerLanguage(name, (await import(`../vendor/highlight-${name}.js`)).default);
    }
    postMessage(undefined);
    postMessage(read(text, language));
  } catch {
    postMessage(null);
  }
};
