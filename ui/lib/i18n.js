// The texts of the user interface, in the language the browser asks for.
/** @type {Record<string, string>} */
let texts = {};
export let locale = 'en';

const LOCALES = ['en', 'zh'];

/** Chooses the first of the browser's languages that there are texts for, and loads them. */
export async function loadTexts(languages = navigator.languages) {
  const wanted = languages.map((language) => language.toLowerCase().split('-')[0]);
  locale = wanted.find((language) => LOCALES.includes(language)) ?? 'en';
  const answer = await fetch(`/ui/static/locales/${locale}.json`);
  texts = await answer.json();
  document.documentElement.lang = locale === 'zh' ? 'zh-CN' : 'en';
}

/**
 * A text by its key; `{name}` is filled in.
 * @param {string} key
 * @param {Record<string, unknown>} [values]
 */
export function t(key, values) {
  const text = texts[key] ?? key;
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole)) : text;
}

/** A text that may be missing, such as the name of an event type that a newer service sends. */
export function maybe(/** @type {string} */ key, /** @type {string} */ otherwise) {
  return texts[key] ?? otherwise;
}
