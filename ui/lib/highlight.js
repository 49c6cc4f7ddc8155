// The words of a text that have a meaning in its language. Pieces of text are made of it, never HTML.
import hljs from '../vendor/highlight.js';

/** Longer texts are shown as they are. */
const MOST = 100_000;

/** The languages that are known, by the ends of file names. @type {Record<string, string>} */
const BY_ENDING = {
  json: 'json', jsonl: 'json', ndjson: 'json', ipynb: 'json', py: 'python', sh: 'bash', bash: 'bash', js: 'javascript', mjs: 'javascript', cjs: 'javascript', ts: 'typescript',
  yaml: 'yaml', yml: 'yaml', toml: 'ini', ini: 'ini', cfg: 'ini', md: 'markdown', html: 'xml', htm: 'xml', xml: 'xml', svg: 'xml', css: 'css', sql: 'sql', diff: 'diff', patch: 'diff',
};

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
    if (text) this.found.push({ text, look: this.open[this.open.length - 1] ?? '' });
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

/** The language of a file, by its name. @param {string} path */
export function languageOf(path) {
  return BY_ENDING[path.split('/').pop()?.split(/\./).slice(1).pop()?.toLowerCase() ?? ''];
}

/**
 * The pieces of a text; none if it is long or the language is not known. Languages are fetched when they are first needed.
 * @param {string} text @param {string | undefined} language
 * @returns {Promise<{text: string, look: string}[] | null>}
 */
export async function pieces(text, language) {
  if (!language || text.length > MOST || !Object.values(BY_ENDING).includes(language)) return null;
  // Some languages have parts in another.
  for (const name of language === 'markdown' ? ['xml', language] : language === 'xml' ? ['css', 'javascript', language] : [language]) {
    if (!hljs.getLanguage(name)) hljs.registerLanguage(name, (await import(`../vendor/highlight-${name}.js`)).default);
  }
  return /** @type {Pieces} */ (hljs.highlight(text, { language, ignoreIllegals: true })._emitter).found;
}
