// Text in a language, with its words coloured: as text first, then with colours, which change nothing of its place.
import { html, useEffect, useState } from '../lib/view.js';
import { pieces } from '../lib/highlight.js';

/** @param {{text: string, language?: string}} props */
export function Source({ text, language }) {
  const [found, setFound] = useState(/** @type {{of: string, pieces: {text: string, look: string}[]} | null} */ (null));
  useEffect(() => {
    let left = false;
    // Without colours the text is the same.
    pieces(text, language).then((made) => { if (!left && made) setFound({ of: text, pieces: made }); }, () => {});
    return () => { left = true; };
  }, [text, language]);
  if (found?.of !== text) return html`${text}`;
  return html`${found.pieces.map((piece) => (piece.look ? html`<span class=${`h-${piece.look}`}>${piece.text}</span>` : piece.text))}`;
}

/** A value as JSON. @param {{value: unknown, label: string}} props */
export function Json({ value, label }) {
  return html`<pre class="code" tabindex="0" role="group" aria-label=${label}><${Source} text=${JSON.stringify(value, null, 2)} language="json" /></pre>`;
}
