// Server-sent events, read from pieces of any size, and the log of a run made of them.

import type { Event } from './api.js';

/** The events that a log ends with. */
const LAST: readonly string[] = ['conversation.completed', 'conversation.failed'];

export const isLast = (event: Event): boolean => LAST.includes(event.type);

/** Makes events of text. What is not ended by an empty line is no event: it was cut off. */
export class Parser {
  #rest = '';
  #name = '';
  #data: string[] = [];

  /** The name and data of each event that this piece completes. */
  feed(piece: string): { name: string; data: string }[] {
    const lines = (this.#rest + piece).split('\n');
    this.#rest = lines.pop() ?? '';
    const found: { name: string; data: string }[] = [];
    for (const whole of lines) {
      const line = whole.endsWith('\r') ? whole.slice(0, -1) : whole;
      if (line === '') {
        if (this.#data.length > 0) found.push({ name: this.#name || 'message', data: this.#data.join('\n') });
        this.#name = '';
        this.#data = [];
        continue;
      }
      const at = line.indexOf(':');
      const field = at < 0 ? line : line.slice(0, at);
      const value = at < 0 ? '' : line.slice(at + 1).replace(/^ /, '');
      if (field === 'event') this.#name = value;
      else if (field === 'data') this.#data.push(value);
    }
    return found;
  }
}

/** An event was left out: the stream must be opened again at the cursor. */
export class Gap extends Error {}

/** The events of a run in their order, each once, whatever the connections bring. */
export class Log {
  /** The number of the last event that was handed out. */
  cursor: number;
  /** Whether that was the last one of the run. */
  ended = false;

  constructor(cursor: number) {
    this.cursor = cursor;
  }

  /** The event, if it is the next one; null if it was here before or is no event of the log. */
  take(name: string, data: string): Event | null {
    if (name !== 'chat_event' || this.ended) return null;
    const event = JSON.parse(data) as Event;
    if (event.seq <= this.cursor) return null;
    if (event.seq !== this.cursor + 1) throw new Gap(`event ${event.seq} followed event ${this.cursor}`);
    this.cursor = event.seq;
    this.ended = isLast(event);
    return event;
  }
}
