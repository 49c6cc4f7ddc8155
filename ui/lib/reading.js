// Markdown and sources are read in a worker, one after the other. It is ended where one takes long; the page goes on all the while.

/** Longest time for a text. */
const MOST_MS = 2000;

/** The languages that are known, by the ends of file names. @type {Record<string, string>} */
const BY_ENDING = {
  json: 'json', jsonl: 'json', ndjson: 'json', ipynb: 'json', py: 'python', sh: 'bash', bash: 'bash', js: 'javascript', mjs: 'javascript', cjs: 'javascript', ts: 'typescript',
  yaml: 'yaml', yml: 'yaml', toml: 'ini', ini: 'ini', cfg: 'ini', md: 'markdown', html: 'xml', htm: 'xml', xml: 'xml', svg: 'xml', css: 'css', sql: 'sql', diff: 'diff', patch: 'diff',
};

/** The language of a file, by its name. @param {string} path */
export function languageOf(path) {
  const ending = path.split('/').pop()?.split(/\./).slice(1).pop()?.toLowerCase() ?? '';
  return Object.hasOwn(BY_ENDING, ending) ? BY_ENDING[ending] : undefined;
}

const READER = new URL('reader.js', import.meta.url).href;
const rules = { createHTML: (/** @type {string} */ text) => text, createScriptURL: () => READER };
/** Alone makes HTML for DOMPurify to look at, and the worker's address: pages allow one policy, of this name. */
export const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('dompurify', rules) ?? rules;

/** @typedef {{text: string, language?: string, done: (made: any) => void}} Wanted */
/** Those that wait, in their order. @type {Set<Wanted>} */
const waiting = new Set();
/** @type {Wanted | undefined} */
let turn;
/** @type {Worker | undefined} */
let worker;
let timer = 0;

function next() {
  [turn] = waiting;
  if (!turn) return;
  const { text, language } = turn;
  waiting.delete(turn);
  if (!worker) {
    worker = new Worker(policy.createScriptURL(READER), { type: 'module' });
    worker.onmessage = ({ data }) => {
      if (data === undefined) timer = setTimeout(ended, MOST_MS, null);
      else ended(data);
    };
    worker.onerror = () => ended(null);
  }
  worker.postMessage({ text, language });
}

/** @param {any} made */
function ended(made) {
  clearTimeout(timer);
  if (made === null) {
    worker?.terminate();
    worker = undefined;
  }
  const read = turn;
  next();
  read?.done(made);
}

/**
 * Reads a source in a language, or else Markdown, when its turn comes. `done` gets the pieces of the source, or the HTML of the Markdown as it was written;
 * null if that took too long, failed, or is too much. The answer gives the text up.
 * @param {string} text @param {string | undefined} language @param {(made: any) => void} done
 */
export function read(text, language, done) {
  const wanted = { text, language, done };
  waiting.add(wanted);
  if (!turn) next();
  return () => {
    waiting.delete(wanted);
    wanted.done = () => {};
  };
}
