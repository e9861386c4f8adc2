import type { Clock } from '../../clock.js';
import { Cell } from '../../internal/cell.js';

/** What was written at once, as an engine keeps it. */
export interface Written {
  readonly stream: 'stdout' | 'stderr';
  /** In the engine's own format, of one length; of one line that was too long for one piece all have the same. */
  readonly time: string;
  readonly bytes: Buffer;
}

/** An engine keeps a line in pieces of so many bytes. */
const PIECE = 16_384;

/** The output of one program of a fake engine. */
export class OutputLog {
  readonly #state = new Cell<{ readonly pieces: readonly Written[]; readonly ended: boolean }>({
    pieces: [],
    ended: true,
  });
  #nanos = 0;

  constructor(private readonly clock: Clock) {}

  /** Line by line, as it comes from the program. */
  write(stream: Written['stream'], text: string): void {
    const lines = text.match(/[^\n]*\n|[^\n]+/g) ?? [];
    const pieces = lines.flatMap((line) => {
      const bytes = Buffer.from(line);
      const time = this.#now();
      return Array.from({ length: Math.ceil(bytes.length / PIECE) }, (_, i) => ({
        ...{ stream, time },
        bytes: bytes.subarray(i * PIECE, (i + 1) * PIECE),
      }));
    });
    this.#state.set({ ...this.#state.value, pieces: [...this.#state.value.pieces, ...pieces] });
  }

  /** Whether nobody writes to it any more, for now. */
  set ended(ended: boolean) {
    this.#state.set({ ...this.#state.value, ended });
  }

  /** @param since - wall time, ms */
  async *read(follow: boolean, since: number): AsyncGenerator<Written, void> {
    for (let read = 0; ;) {
      const { pieces, ended } = this.#state.value;
      for (const one of pieces.slice(read)) if (Date.parse(one.time) >= since) yield one;
      read = pieces.length;
      if (!follow || (ended && read === this.#state.value.pieces.length)) return;
      await this.#state.until((now) => (now.pieces.length > read || now.ended ? true : undefined));
    }
  }

  #now(): string {
    this.#nanos = (this.#nanos + 1) % 1_000_000;
    return new Date(this.clock.wall()).toISOString().replace('Z', `${String(this.#nanos).padStart(6, '0')}Z`);
  }
}

/** A piece as it is sent: with a head that says which output it is of, and how long. */
export function frame({ stream, bytes }: Pick<Written, 'stream' | 'bytes'>): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt8(stream === 'stdout' ? 1 : 2);
  head.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([head, bytes]);
}
