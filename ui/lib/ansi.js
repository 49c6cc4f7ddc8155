// Terminal output as safe elements: colours and weights are kept, every other sequence is dropped.
import { html } from './view.js';

const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
// CSI, OSC (ended by BEL or ST), other two-character sequences, and control characters that show nothing.
// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b\[([0-9;:?]*)([ -/]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b.?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

/** The look of text, carried from one piece to the next. */
export function plain() {
  return { colour: '', bold: false, dim: false, italic: false, under: false };
}

/** @param {ReturnType<typeof plain>} look @param {string} codes */
function change(look, codes) {
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) Object.assign(look, plain());
    else if (code === 1) look.bold = true;
    else if (code === 2) look.dim = true;
    else if (code === 3) look.italic = true;
    else if (code === 4) look.under = true;
    else if (code === 22) look.bold = look.dim = false;
    else if (code === 23) look.italic = false;
    else if (code === 24) look.under = false;
    else if (code >= 30 && code <= 37) look.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) look.colour = COLOURS[code - 90];
    else if (code === 39) look.colour = '';
    // Colours of a palette: their numbers are passed over, so that none is read as a code.
    else if (code === 38 || code === 48) at += numbers[at + 1] === 5 ? 2 : 4;
  }
}

/** @param {ReturnType<typeof plain>} look */
function classes(look) {
  const names = [look.colour && `a-${look.colour}`, look.bold && 'a-bold', look.dim && 'a-dim', look.italic && 'a-italic', look.under && 'a-under'];
  return names.filter(Boolean).join(' ');
}

/**
 * The pieces of a text, each with its look.
 * @param {string} text
 * @param {ReturnType<typeof plain>} [look]
 */
export function pieces(text, look = plain()) {
  /** @type {{text: string, classes: string}[]} */
  const found = [];
  const push = (/** @type {string} */ part) => { if (part) found.push({ text: part, classes: classes(look) }); };
  let from = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    push(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[3] === 'm' && !match[2]) change(look, match[1]);
  }
  push(text.slice(from));
  return found;
}

/** @param {{text: string, look?: ReturnType<typeof plain>}} props */
export function Ansi({ text, look }) {
  return html`${pieces(text, look).map((piece) => (piece.classes ? html`<span class=${piece.classes}>${piece.text}</span>` : piece.text))}`;
}
