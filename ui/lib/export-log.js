// A run in an export, played like a live one: its events by their times, its bytes from the file itself.
import { signal } from './view.js';
import { RunLog } from './run-log.js';

/** Longest log and longest pause that are played. */
const EVENTS_MAX = 200 * 1024 * 1024;
const PAUSE_MAX_MS = 3000;
const LOG = 'logs/events.jsonl';

/**
 * The files of an export: all of them are stored as they are, so each is a slice of the export.
 * @param {Blob} zip
 * @returns {Promise<Map<string, Blob>>}
 */
async function filesOf(zip) {
  const tail = new DataView(await zip.slice(Math.max(0, zip.size - 66_000)).arrayBuffer());
  let end = tail.byteLength - 22;
  while (end >= 0 && tail.getUint32(end, true) !== 0x06054b50) end -= 1;
  if (end < 0) throw new Error('no directory');
  const count = tail.getUint16(end + 10, true);
  const size = tail.getUint32(end + 12, true);
  const at = tail.getUint32(end + 16, true);
  if (count === 0xffff || at === 0xffffffff) throw new Error('too long');
  const directory = new DataView(await zip.slice(at, at + size).arrayBuffer());
  const files = new Map();
  let place = 0;
  for (let read = 0; read < count; read += 1) {
    if (directory.getUint32(place, true) !== 0x02014b50 || directory.getUint16(place + 10, true) !== 0) throw new Error('not an export');
    const bytes = directory.getUint32(place + 20, true);
    const [name, extra, comment] = [28, 30, 32].map((from) => directory.getUint16(place + from, true));
    const begin = directory.getUint32(place + 42, true);
    const path = new TextDecoder().decode(new Uint8Array(directory.buffer, place + 46, name));
    const local = new DataView(await zip.slice(begin, begin + 30).arrayBuffer());
    const content = begin + 30 + local.getUint16(26, true) + local.getUint16(28, true);
    files.set(path, zip.slice(content, content + bytes));
    place += 46 + name + extra + comment;
  }
  return files;
}

export class ExportLog extends RunLog {
  /** @param {Map<string, Blob>} files @param {import('./run-log.js').Event[]} events */
  constructor(files, events) {
    super('');
    this.files = files;
    this.events = events;
    /** How fast it is played: 0 stands still. */
    this.speed = signal(0);
  }

  /** @param {Blob} zip */
  static async open(zip) {
    const files = await filesOf(zip);
    const log = files.get(LOG);
    if (!log || log.size > EVENTS_MAX) throw new Error('no log');
    const lines = (await log.text()).split('\n').filter(Boolean);
    const events = lines.map((line) => JSON.parse(line));
    // Whoever made the file may have written anything; the page goes by their numbers.
    const fits = (/** @type {any} */ event, /** @type {number} */ at) => event?.seq === at + 1 && typeof event.type === 'string' && typeof event.data === 'object' && event.data;
    if (!events.every(fits)) throw new Error('no log');
    return new ExportLog(files, events);
  }

  async start() {
    this.show(this.events.length);
  }

  close() {
    super.close();
    this.speed.value = 0;
  }

  /** Shows the run as it was after this event. @param {number} seq */
  show(seq) {
    this.speed.value = 0;
    clearTimeout(this.timer);
    this.begin();
    this.add(this.events.slice(0, seq));
    this.state.value = seq >= this.events.length ? 'ended' : 'past';
  }

  begin() {
    this.pages.clear();
    this.types = [];
    this.head.value = 0;
    this.version.value += 1;
    this.state.value = 'loading';
  }

  /** @param {import('./run-log.js').Event[]} events */
  add(events) {
    if (events.length === 0) return;
    this.take(events);
    this.head.value = events[events.length - 1].seq;
    this.swept.value = this.head.value;
    this.changed(events);
  }

  /** Plays from where it stands, or from the beginning if it stands at the end. @param {number} speed */
  play(speed) {
    clearTimeout(this.timer);
    if (this.head.value >= this.events.length) this.begin();
    this.speed.value = speed;
    this.state.value = 'live';
    this.next();
  }

  pause() {
    clearTimeout(this.timer);
    this.speed.value = 0;
    this.state.value = 'past';
  }

  next() {
    if (this.closed || this.speed.value === 0) return;
    const due = [];
    let place = this.head.value;
    let wait = 0;
    // What follows within a frame is shown at once.
    do {
      if (place >= this.events.length) break;
      due.push(this.events[place]);
      place += 1;
      const [one, other] = [this.events[place - 1], this.events[place]].map((event) => (event ? new Date(event.ts).getTime() : NaN));
      wait = Number.isNaN(other) ? 0 : Math.min(PAUSE_MAX_MS, Math.max(0, other - one)) / this.speed.value;
    } while (wait < 16 && due.length < 500);
    this.add(due);
    if (place >= this.events.length) {
      this.speed.value = 0;
      this.state.value = 'ended';
    } else {
      this.timer = setTimeout(() => this.next(), Math.max(16, wait));
    }
  }

  /** @param {number} from @param {number} to */
  async history(from, to) {
    return this.events.slice(Math.max(0, from - 1), to);
  }

  /** @param {number} seq */
  get(seq) {
    return seq <= this.head.value ? this.events[seq - 1] : undefined;
  }

  /** @param {number} seq */
  async one(seq) {
    return this.events[seq - 1];
  }

  async sweep() {}

  /** @param {string} stream @param {number} from @param {number} to */
  async range(stream, from, to) {
    const file = this.files.get(`logs/${stream}.txt`) ?? new Blob([]);
    const [begin, end] = [Math.max(0, Math.min(from, file.size)), Math.min(to, file.size)];
    const bytes = new Uint8Array(await file.slice(begin, end).arrayBuffer());
    const cites = (/** @type {import('./run-log.js').Event} */ event) => event.raw_ref?.stream === stream && event.raw_ref.byte_from < end && event.raw_ref.byte_to > begin;
    return { window: { stream, from: begin, to: begin + bytes.length, total: file.size, bytes }, events: this.events.filter(cites).map((event) => event.seq) };
  }
}
