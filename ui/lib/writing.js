// The message that an engine is still writing. The log gets a message when it is whole; gemini prints its parts before, and they are in its output.
import { useEffect, useState } from './view.js';

/** How often output that no event cites yet is looked at. */
export const EVERY_MS = 700;
/** Most bytes of parts that are looked at. */
const MOST = 128 * 1024;

/** The text of the parts in lines of output, up to a line that is no part. @param {string} output */
export function partsIn(output) {
  let text = '';
  // The last piece is a line that has not ended.
  for (const line of output.split('\n').slice(0, -1)) {
    let said;
    try {
      said = JSON.parse(line);
    } catch {
      return text;
    }
    if (said?.type !== 'message' || said.role !== 'assistant' || said.delta !== true || typeof said.content !== 'string') return text;
    text += said.content;
  }
  return text;
}

/** What is being written: the output behind the last byte that an event cites. @param {import('./run-log.js').RunLog} log @param {boolean} growing */
export function useWriting(log, growing) {
  const [text, setText] = useState('');
  useEffect(() => {
    let [cited, timer, left] = [0, 0, false];
    setText('');
    if (!growing) return undefined;
    const leave = log.listen((events) => {
      for (const { raw_ref: ref } of events) if (ref?.stream === 'stdout') cited = Math.max(cited, ref.byte_to);
    });
    const look = async () => {
      const from = cited;
      try {
        const { window } = await log.range('stdout', from, from + MOST);
        // An event that came meanwhile has the message, or a part of it.
        if (!left) setText(from === cited ? partsIn(new TextDecoder().decode(window.bytes)) : '');
      } catch {
        // The page says elsewhere that the service is not there.
      }
      if (!left) timer = setTimeout(look, EVERY_MS);
    };
    look();
    return () => { left = true; leave(); clearTimeout(timer); };
  }, [log, growing]);
  return growing ? text : '';
}
