// Times, sizes and numbers for people.
import { signal } from './view.js';
import { locale, t } from './i18n.js';

/** The time, for what is told relative to it. */
export const now = signal(Date.now());
setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 1000);

export function ago(/** @type {string} */ iso) {
  const seconds = Math.round((new Date(iso).getTime() - now.value) / 1000);
  const past = Math.abs(seconds);
  const format = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' });
  if (past < 5) return t('time.now');
  if (past < 60) return format.format(seconds, 'second');
  if (past < 3600) return format.format(Math.round(seconds / 60), 'minute');
  if (past < 86400) return format.format(Math.round(seconds / 3600), 'hour');
  return format.format(Math.round(seconds / 86400), 'day');
}

export function exact(/** @type {string} */ iso) {
  const time = new Date(iso);
  return `${time.toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'medium' })} (${iso})`;
}

export function duration(/** @type {number} */ ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return Math.floor(seconds % 60) ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function clock(/** @type {number} */ ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

/** The hour and minute of a time. */
export function clock24(/** @type {number} */ ms) {
  return new Date(ms).toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' });
}

export function bytes(/** @type {number | null | undefined} */ count) {
  if (count === null || count === undefined) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  let size = count;
  while (size >= 1024 && at < units.length - 1) { size /= 1024; at += 1; }
  return `${at === 0 ? size : size.toFixed(1)} ${units[at]}`;
}

export function number(/** @type {number} */ value) {
  return value.toLocaleString(locale);
}

/** Tokens and cost of a run, or nothing. */
export function used(/** @type {{input_tokens: number, output_tokens: number, cost_usd: number | null} | null | undefined} */ usage) {
  if (!usage) return '';
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const parts = [];
  if (tokens > 0) parts.push(t('usage.tokens', { n: tokens < 1000 ? tokens : `${(tokens / 1000).toFixed(1)}k` }));
  if (usage.cost_usd) parts.push(`$${usage.cost_usd.toFixed(usage.cost_usd < 0.01 ? 4 : 2)}`);
  return parts.join(' · ');
}

/** Ids begin with the time, so their end is what tells them apart. */
export function shortId(/** @type {string} */ id) {
  return id.length > 12 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}
