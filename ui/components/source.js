// Text in a language, with its words coloured: as text first, then with colours, which change nothing of its place.
import { html, useEffect, useState } from '../lib/view.js';
import { read } from '../lib/reading.js';

/** Longer texts are shown as they are. */
const MOST = 100_000;

/** @param {{text: string, language?: string}} props */
export function Source({ text, language }) {
  const [found, setFound] = useState(/** @type {{of: string, pieces: {text: string, look: string}[] | null} | null} */ (null));
  useEffect(() => (language && text.length <= MOST ? read(text, language, (pieces) => setFound({ of: text, pieces })) : undefined), [text, language]);
  // Without colours the text is the same.
  if (found?.of !== text || !found.pieces) return html`${text}`;
  return html`${found.pieces.map((piece) => (piece.look ? html`<span class=${`h-${piece.look}`}>${piece.text}</span>` : piece.text))}`;
}

/** A value as JSON. @param {{value: unknown, label: string}} props */
export function Json({ value, label }) {
  return html`<pre class="code" tabindex="0" role="group" aria-label=${label}><${Source} text=${JSON.stringify(value, null, 2)} language="json" /></pre>`;
}
