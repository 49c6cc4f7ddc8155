// A small picture of numbers: bars of which a part failed.
import { html } from '../lib/view.js';

/** @param {{label: string, bars: {whole: number, failed: number, name: string}[]}} props */
export function Bars({ label, bars }) {
  const most = Math.max(1, ...bars.map((bar) => bar.whole));
  const width = 240 / bars.length;
  return html`<svg class="bars" viewBox="0 0 240 32" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${bars.map((bar, place) => { const tall = (bar.whole / most) * 30; const red = (bar.failed / most) * 30; return html`<g key=${place}><title>${bar.name}</title>
      <rect class="all" x=${place * width + 1} width=${width - 2} y=${32 - Math.max(1, tall)} height=${Math.max(1, tall)} />
      ${bar.failed > 0 && html`<rect class="bad" x=${place * width + 1} width=${width - 2} y=${32 - Math.max(1.5, red)} height=${Math.max(1.5, red)} />`}</g>`; })}</svg>`;
}
