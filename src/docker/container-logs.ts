import type { Clock } from '../clock.js';
import type { LogChunk } from '../driver/driver.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import type { ContainerInfo } from './container-info.js';
import type { Containers } from './driver-containers.js';
import { EngineFault, isEngineFault } from './engine-fault.js';
import { type Frame, framesOf } from './frames.js';

/** Between two looks at a container whose engine does not answer. */
const LOOK_AGAIN: BackoffOptions = { first: 200, max: 5_000, jitter: 'full' };

/** What is wanted of a container's output. */
export interface LogAsk {
  readonly follow: boolean;
  /** Wall time, ms. */
  readonly since: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The output of one container; made for each who reads it. */
export class ContainerLogs {
  readonly #operation: string;

  constructor(
    private readonly containers: Containers,
    private readonly clock: Clock,
    private readonly id: string,
    private readonly ask: LogAsk,
  ) {
    this.#operation = `read the output of container ${id}`;
  }

  /**
   * Oldest first; nothing is read ahead of who iterates, beyond the buffers of the connection.
   *
   * A connection that is lost while the container is followed is made anew, and goes on after the last piece that was
   * given, by the time that the engine keeps with each. It keeps none for a container with a terminal: that ends with an
   * error.
   *
   * @throws EngineFault; or the signal's reason
   */
  async *read(): AsyncGenerator<LogChunk, void> {
    const info = await this.#look();
    if (info?.tty === true) yield* this.#readTerminal();
    else yield* this.#readPieces();
  }

  async *#readTerminal(): AsyncGenerator<LogChunk, void> {
    const { since, follow } = this.ask;
    const body = await this.containers.openLogs(this.id, { follow, since, timestamps: false }, this.ask);
    for await (const chunk of body as AsyncIterable<Buffer>) yield { stream: 'stdout', at: undefined, chunk };
    if (!follow || (await this.#look())?.running !== true) return;
    throw new EngineFault('lost', this.#operation, 'it ended before the container did');
  }

  async *#readPieces(): AsyncGenerator<LogChunk, void> {
    const { follow, signal } = this.ask;
    const place = new Place(this.ask.since);
    for (let misses = 0; ; misses++) {
      if (misses > 0) await sleep(this.clock, backoff(LOOK_AGAIN, misses, this.clock), { signal });
      try {
        const info = await this.#look();
        const o = { follow, since: place.since, timestamps: true };
        const body = await this.containers.openLogs(this.id, o, { signal });
        place.reopen();
        for await (const frame of framesOf(body, this.#operation)) {
          misses = 0;
          if (place.isNew(frame)) yield chunkOf(frame);
        }
        // Had it been running, then the engine may have ended, and not the container.
        if (!follow || info?.running !== true) return;
      } catch (error) {
        signal?.throwIfAborted();
        if (place.begun && isEngineFault(error, 404)) return;
        if (!follow || !isEngineFault(error) || error.kind === 'status') throw error;
      }
    }
  }

  #look(): Promise<ContainerInfo | undefined> {
    return this.containers.inspect(this.id, this.ask);
  }
}

/** How far somebody has read. Pieces of one long line have one time: they are counted. */
class Place {
  #time = '';
  #count = 0;
  #skip = 0;

  constructor(private readonly from: number | undefined) {}

  get begun(): boolean {
    return this.#time !== '';
  }

  /** Wall time from which on there may be something new, ms. */
  get since(): number | undefined {
    return this.begun ? Date.parse(this.#time) : this.from;
  }

  /** What is read from now on begins with what was read before. */
  reopen(): void {
    this.#skip = Math.max(this.#skip, this.#count);
    this.#count = 0;
  }

  isNew(frame: Frame): boolean {
    const { time } = stamped(frame);
    if (this.#skip > 0 && time < this.#time) return false;
    if (time !== this.#time) [this.#time, this.#count, this.#skip] = [time, 0, 0];
    this.#count += 1;
    return this.#count > this.#skip;
  }
}

function chunkOf(frame: Frame): LogChunk {
  const { time, chunk } = stamped(frame);
  const at = Date.parse(time);
  return { stream: frame.stream, at: Number.isNaN(at) ? undefined : at, chunk };
}

/** Times of one length and one zone: they sort as text. */
function stamped({ bytes }: Frame): { readonly time: string; readonly chunk: Buffer } {
  const space = bytes.indexOf(' ');
  return { time: bytes.toString('latin1', 0, space), chunk: bytes.subarray(space + 1) };
}
