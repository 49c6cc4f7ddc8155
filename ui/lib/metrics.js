// What the service counts (`/metrics`), asked again and again while the page is seen.
import { useEffect, useState } from './view.js';

const EVERY_MS = 2000;
const SAMPLES = 450;

/** @typedef {{at: number, of: Map<string, number>}} Sample */

/** The sum of all series of each name. @param {string} text */
export function sums(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const name = /^[a-zA-Z_:][a-zA-Z0-9_:]*/.exec(line)?.[0];
    const value = Number(line.slice(line.lastIndexOf(' ') + 1));
    if (name && Number.isFinite(value)) found.set(name, (found.get(name) ?? 0) + value);
  }
  return found;
}

/** The last minutes of everything that is counted. @returns {Sample[]} */
export function useMetrics() {
  const [samples, setSamples] = useState(/** @type {Sample[]} */ ([]));
  useEffect(() => {
    const abort = new AbortController();
    const ask = async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch('/metrics', { signal: abort.signal });
        if (!answer.ok) return;
        const of = sums(await answer.text());
        setSamples((old) => [...old.slice(1 - SAMPLES), { at: Date.now(), of }]);
      } catch {
        // The page says elsewhere that the service is not there.
      }
    };
    ask();
    const timer = setInterval(ask, EVERY_MS);
    return () => { abort.abort(); clearInterval(timer); };
  }, []);
  return samples;
}

/** A number over time. @param {Sample[]} samples @param {string} name */
export function series(samples, name) {
  return samples.map((sample) => sample.of.get(name) ?? 0);
}

/** How fast a counter grows, per second, since the sample before. @param {Sample[]} samples @param {string} name */
export function rate(samples, name) {
  return samples.map((sample, place) => {
    const before = samples[place - 1];
    if (!before) return 0;
    // A counter begins anew with its service.
    const grown = Math.max(0, (sample.of.get(name) ?? 0) - (before.of.get(name) ?? 0));
    return grown / Math.max(0.001, (sample.at - before.at) / 1000);
  });
}
