// Small pictures of numbers: a line over time, and bars of which a part failed.
import { html } from '../lib/view.js';

/** @param {{label: string, values: number[], shown: (value: number) => string}} props */
export function Plot({ label, values, shown }) {
  const last = values.length ? values[values.length - 1] : 0;
  const [low, high] = [Math.min(0, ...values), Math.max(...values, 0)];
  const across = high - low || 1;
  const at = (/** @type {number} */ value, /** @type {number} */ place) => `${values.length > 1 ? (place / (values.length - 1)) * 200 : 0},${(31 - ((value - low) / across) * 30).toFixed(1)}`;
  return html`<figure class="plot"><figcaption class="row"><span class="grow quiet small">${label}</span><strong>${shown(last)}</strong></figcaption>
    <svg viewBox="0 0 200 32" preserveAspectRatio="none" role="img" aria-label=${`${label}: ${shown(last)}, ${shown(low)} – ${shown(high)}`}>
      ${values.length > 1 && html`<polyline points=${values.map(at).join(' ')} />`}</svg></figure>`;
}

/** @param {{label: string, bars: {whole: number, failed: number, name: string}[]}} props */
export function Bars({ label, bars }) {
  const most = Math.max(1, ...bars.map((bar) => bar.whole));
  const width = 240 / bars.length;
  return html`<svg class="bars" viewBox="0 0 240 32" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${bars.map((bar, place) => { const tall = (bar.whole / most) * 30; const red = (bar.failed / most) * 30; return html`<g key=${place}><title>${bar.name}</title>
      <rect class="all" x=${place * width + 1} width=${width - 2} y=${32 - Math.max(1, tall)} height=${Math.max(1, tall)} />
      ${bar.failed > 0 && html`<rect class="bad" x=${place * width + 1} width=${width - 2} y=${32 - Math.max(1.5, red)} height=${Math.max(1.5, red)} />`}</g>`; })}</svg>`;
}
