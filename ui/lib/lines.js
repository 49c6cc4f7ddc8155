// A piece of raw output as lines, each with its place in the stream, byte by byte.

/**
 * @typedef {{from: number, to: number, bytes: Uint8Array}} Line
 * @typedef {{stream: string, from: number, to: number, total: number, bytes: Uint8Array}} Window
 */

const decoder = new TextDecoder('utf-8');

/** The bytes of an answer of `/logs/range`. @param {any} range @returns {Window} */
export function windowOf(range) {
  const bytes = range.encoding === 'base64' ? Uint8Array.from(atob(range.content), (letter) => letter.charCodeAt(0)) : new TextEncoder().encode(range.content);
  return { stream: range.stream, from: range.byte_from, to: range.byte_to, total: range.total_bytes, bytes };
}

/** @param {Window} window @returns {Line[]} without their line breaks, which belong to them */
export function linesOf({ from, bytes }) {
  const lines = [];
  let begin = 0;
  while (begin < bytes.length) {
    const end = bytes.indexOf(10, begin);
    const next = end < 0 ? bytes.length : end + 1;
    lines.push({ from: from + begin, to: from + next, bytes: bytes.subarray(begin, end < 0 ? bytes.length : end) });
    begin = next;
  }
  return lines;
}

/** A line in three: before the marked bytes, they, and what follows. @param {Line} line @param {{from: number, to: number} | null} mark */
export function parts(line, mark) {
  if (!mark || mark.to <= line.from || mark.from >= line.to) return [decoder.decode(line.bytes), '', ''];
  const begin = Math.max(0, mark.from - line.from);
  const end = Math.min(line.bytes.length, mark.to - line.from);
  return [line.bytes.subarray(0, begin), line.bytes.subarray(begin, end), line.bytes.subarray(end)].map((bytes) => decoder.decode(bytes));
}
