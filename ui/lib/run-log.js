// The log of one run as a page sees it: its end first, older events by pages, new ones as they come, in bounded memory.
import { signal } from './view.js';
import { api, offline, runPath } from './api.js';
import { windowOf } from './lines.js';

/**
 * An event as the service stores it.
 * @typedef {{seq: number, ts: string, type: string, data: any, meta: {attempt: number, kind: string}, raw_ref: null | {stream: string, byte_from: number, byte_to: number}}} Event
 */

const PAGE = 250;
/** Pages kept: 25 000 events, whatever the length of the log. */
const PAGES = 100;
/** Events of one answer while the whole log is looked through. */
const SWEEP = 5000;
const RETRY_MS = 1000;
const FINAL = ['conversation.completed', 'conversation.failed'];

export class RunLog {
  /**
   * @param {string} id
   * @param {number | null} at the last event to show; none: follow the run
   */
  constructor(id, at = null) {
    this.id = id;
    this.at = at;
    /** The last event there is. */
    this.head = signal(0);
    /** `loading`, `live`, `lost` (reconnecting), `ended`, `past`. */
    this.state = signal('loading');
    /** Counts changes of what is loaded. */
    this.version = signal(0);
    /** What went wrong last. @type {any} */
    this.error = signal(null);
    /** Of how many events the type is known, while a filter needs all. */
    this.swept = signal(0);
    /** @type {Map<number, Event[]>} */
    this.pages = new Map();
    /** @type {Set<number>} */
    this.wanted = new Set();
    /** @type {string[]} The type of event seq at place seq - 1. */
    this.types = [];
    /** @type {Set<(events: Event[]) => void>} */
    this.listeners = new Set();
    /** @type {Event[]} Events that came since the last frame. */
    this.queue = [];
    this.closed = false;
    /** @type {EventSource | null} */
    this.source = null;
    this.timer = 0;
    this.frame = 0;
  }

  /** Loads the end of the log, then follows it. */
  async start() {
    try {
      const job = await api(runPath(this.id));
      const head = this.at === null ? job.head_seq : Math.min(this.at, job.head_seq);
      const from = Math.max(1, head - PAGE + 1);
      const events = await this.history(from, head);
      if (this.closed) return;
      this.take(events);
      this.head.value = head;
      this.error.value = null;
      this.changed(events);
      if (this.at !== null) this.state.value = 'past';
      else if (events.some((event) => FINAL.includes(event.type))) this.state.value = 'ended';
      else this.follow();
    } catch (error) {
      if (this.closed) return;
      this.error.value = error;
      if (offline.value) this.timer = setTimeout(() => this.start(), RETRY_MS);
    }
  }

  close() {
    this.closed = true;
    this.source?.close();
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }

  /** @param {number} from @param {number} to @returns {Promise<Event[]>} both included */
  async history(from, to) {
    if (to < from) return [];
    const answer = await api(runPath(this.id, `/events/history?from_seq=${from}&to_seq=${to}&limit=${to - from + 1}`));
    return answer.events;
  }

  /**
   * A piece of the raw output, and the events that it is cited by.
   * @param {string} stream @param {number} from @param {number} to
   */
  async range(stream, from, to) {
    const answer = await api(runPath(this.id, `/logs/range?stream=${stream}&byte_from=${Math.max(0, from)}&byte_to=${to}`));
    return { window: windowOf(answer), events: /** @type {number[]} */ (answer.events) };
  }

  /** Follows the run behind the last event, and comes back whenever the connection is lost. */
  follow() {
    if (this.closed) return;
    const source = new EventSource(runPath(this.id, `/events?cursor=${this.last()}`));
    this.source = source;
    source.addEventListener('snapshot', () => { this.state.value = 'live'; offline.value = false; });
    source.addEventListener('chat_event', (message) => this.receive(JSON.parse(message.data)));
    source.onerror = () => {
      // The browser would come back with the cursor of this address, so a new address is made instead.
      source.close();
      this.source = null;
      if (this.closed || this.state.value === 'ended') return;
      this.state.value = 'lost';
      this.timer = setTimeout(() => this.follow(), RETRY_MS);
    };
  }

  /** The last event that came, shown or not. */
  last() {
    return this.queue.length > 0 ? this.queue[this.queue.length - 1].seq : this.head.value;
  }

  /** @param {Event} event */
  receive(event) {
    // What came before a cut comes again only if the service is mistaken; it is never shown twice.
    if (event.seq <= this.last()) return;
    if (event.seq !== this.last() + 1) {
      this.source?.close();
      this.timer = setTimeout(() => this.follow(), RETRY_MS);
      return;
    }
    this.queue.push(event);
    if (FINAL.includes(event.type)) {
      this.source?.close();
      this.flush();
      this.state.value = 'ended';
    } else if (!this.frame) {
      // One drawing for all that comes meanwhile. Frames stop in a hidden tab; timers do not.
      const flush = () => { this.frame = 0; this.flush(); };
      this.frame = document.hidden ? (setTimeout(flush, 500), 1) : requestAnimationFrame(flush);
    }
  }

  flush() {
    if (this.closed || this.queue.length === 0) return;
    const events = this.queue;
    this.queue = [];
    this.take(events);
    this.head.value = events[events.length - 1].seq;
    this.changed(events);
  }

  /**
   * Tells a listener what is at the end of the log, then whatever comes, each event once.
   * @param {(events: Event[]) => void} listener
   */
  listen(listener) {
    const known = [];
    for (let seq = this.head.value; seq > 0 && known.length < PAGE; seq -= 1) {
      const event = this.pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
      if (!event) break;
      known.unshift(event);
    }
    if (known.length) listener(known);
    this.listeners.add(listener);
    return () => { this.listeners.delete(listener); };
  }

  /** @param {Event[]} events */
  changed(events) {
    this.version.value += 1;
    for (const listener of this.listeners) listener(events);
  }

  /** Keeps events in their pages. @param {Event[]} events */
  take(events) {
    for (const event of events) {
      const page = Math.floor((event.seq - 1) / PAGE);
      let kept = this.pages.get(page);
      if (!kept) {
        kept = [];
        this.pages.set(page, kept);
      }
      kept[(event.seq - 1) % PAGE] = event;
      this.types[event.seq - 1] = event.type;
    }
    for (const page of this.pages.keys()) {
      if (this.pages.size <= PAGES) break;
      this.pages.delete(page);
    }
  }

  /** The event of this number, if it is here; else it is fetched. @param {number} seq @returns {Event | undefined} */
  get(seq) {
    const page = Math.floor((seq - 1) / PAGE);
    const kept = this.pages.get(page);
    const event = kept?.[(seq - 1) % PAGE];
    if (!event && seq >= 1 && seq <= this.head.value) this.fetch(page);
    return event;
  }

  /** @param {number} page */
  async fetch(page) {
    if (this.wanted.has(page)) return;
    this.wanted.add(page);
    try {
      const from = page * PAGE + 1;
      const events = await this.history(from, Math.min(from + PAGE - 1, this.head.value));
      if (this.closed) return;
      this.pages.delete(page);
      this.take(events);
      this.version.value += 1;
    } catch (error) {
      this.error.value = error;
    } finally {
      setTimeout(() => this.wanted.delete(page), 300);
    }
  }

  /** One event, wherever it is in the log. @param {number} seq @returns {Promise<Event | undefined>} */
  async one(seq) {
    const kept = this.pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
    return kept ?? (await this.history(seq, seq))[0];
  }

  /** Learns the type of every event, for a filter. */
  async sweep() {
    let from = 1;
    while (!this.closed && from <= this.head.value) {
      if (this.types[from - 1] !== undefined) { from += 1; continue; }
      let to = from;
      while (to < this.head.value && to - from + 1 < SWEEP && this.types[to] === undefined) to += 1;
      const events = await this.history(from, to);
      for (const event of events) this.types[event.seq - 1] = event.type;
      from = to + 1;
      this.swept.value = to;
      this.version.value += 1;
    }
    this.swept.value = this.head.value;
  }
}
