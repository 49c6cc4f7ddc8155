// A TCP proxy that cuts its connections after a random number of bytes, in the middle of whatever is under way.
import net from 'node:net';

/** Numbers from 0 to 1, the same for the same seed. */
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export class CuttingProxy {
  /** How many connections were cut. */
  cuts = 0;

  /** Most bytes of requests and of answers that a connection lives for; null while nothing is cut. */
  most = null;

  /** The connections of clients. */
  open = new Set();

  constructor(service, seed) {
    const random = numbers(seed);
    const { hostname, port } = new URL(service);
    this.server = net.createServer((client) => {
      const upstream = net.connect(Number(port), hostname);
      // It dies while it asks or while it is answered, whichever comes first.
      const [sent, answered] = this.most?.map((most) => Math.floor(random() * most)) ?? [null, null];
      this.open.add(client);
      client.on('close', () => this.open.delete(client));
      const cut = () => {
        for (const end of [client, upstream]) {
          // Half of them with a reset, the others with an ordinary end.
          if (random() < 0.5) end.resetAndDestroy();
          else end.destroy();
        }
      };
      const pass = (source, target, limit) => {
        let rest = limit;
        source.on('data', (piece) => {
          if (rest !== null && piece.length > rest) {
            this.cuts += 1;
            target.write(piece.subarray(0, rest), cut);
            rest = 0;
            source.pause();
            return;
          }
          if (rest !== null) rest -= piece.length;
          if (!target.write(piece)) {
            source.pause();
            target.once('drain', () => source.resume());
          }
        });
        source.on('end', () => target.end());
        source.on('close', () => target.destroy());
        source.on('error', cut);
      };
      pass(client, upstream, sent);
      pass(upstream, client, answered);
    });
  }

  async listen() {
    await new Promise((resolve) => { this.server.listen(0, '127.0.0.1', resolve); });
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  /** From now on every connection is cut; those from before are over. */
  begin(most) {
    this.most = most;
    for (const connection of this.open) connection.destroy();
  }

  close() {
    this.server.close();
    for (const connection of this.open) connection.destroy();
  }
}
