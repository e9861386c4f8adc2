import type { Progress } from '../image/types.js';
import type { JsonObject } from './json-lines.js';

type LayerState = 'waiting' | 'downloading' | 'verifying' | 'downloaded' | 'extracting' | 'done';

/** What an engine writes about a layer. Other lines, such as `Pulling from library/redis`, speak of the whole pull. */
const LAYER_STATES: Readonly<Record<string, LayerState>> = {
  'Pulling fs layer': 'waiting',
  Waiting: 'waiting',
  // Somebody else's pull: if that stalls, so do we (C7).
  'Layer already being pulled by another client. Waiting.': 'waiting',
  Downloading: 'downloading',
  'Verifying Checksum': 'verifying',
  'Download complete': 'downloaded',
  Extracting: 'extracting',
  'Pull complete': 'done',
  'Already exists': 'done',
};
/** `Retrying in 5 seconds`: the engine's own attempts at one layer. */
const RETRYING = /^Retrying in /;

interface Layer {
  readonly state: LayerState;
  readonly bytes: number;
  readonly total: number | undefined;
}

/** One aggregate of all layers of a pull, from the lines of its stream (IC-12). Bytes never go back. */
export class PullProgress {
  readonly #layers = new Map<string, Layer>();
  // The sums over all layers, kept up to date: a pull has far more lines than layers.
  readonly #count: Record<LayerState, number> = {
    ...{ waiting: 0, downloading: 0, verifying: 0 },
    ...{ downloaded: 0, extracting: 0, done: 0 },
  };
  #bytes = 0;
  #total = 0;
  #unsized = 0;
  /** The last line, for the error of a pull that ends in silence. */
  last = '';

  /** Takes one line in and tells how far the pull is. */
  read(line: JsonObject): Omit<Progress, 'attempt'> {
    const { status, id } = line;
    if (typeof status === 'string') {
      this.last = typeof id === 'string' ? `${id}: ${status}` : status;
      const state = RETRYING.test(status) ? 'waiting' : LAYER_STATES[status];
      if (state !== undefined && typeof id === 'string') this.#move(id, state, line['progressDetail']);
    }
    return this.#snapshot();
  }

  #move(id: string, state: LayerState, detail: unknown): void {
    const before = this.#layers.get(id);
    if (before !== undefined) this.#add(before, -1);
    const layer = moved(before, state, detail);
    this.#layers.set(id, layer);
    this.#add(layer, 1);
  }

  #add({ state, bytes, total }: Layer, sign: 1 | -1): void {
    this.#count[state] += sign;
    this.#bytes += sign * bytes;
    this.#total += sign * (total ?? 0);
    this.#unsized += total === undefined ? sign : 0;
  }

  #snapshot(): Omit<Progress, 'attempt'> {
    const layers = this.#layers.size;
    const sized = this.#unsized === 0 && this.#total > 0;
    return {
      phase: layers === 0 ? 'resolving' : phaseOf(this.#count),
      bytes: { done: this.#bytes, ...(sized && { total: this.#total }) },
      ...(layers > 0 && { layers: { done: this.#count.done, total: layers } }),
      ...(this.last !== '' && { note: this.last }),
    };
  }
}

function moved(before: Layer | undefined, state: LayerState, detail: unknown): Layer {
  const { bytes, total } = before ?? { bytes: 0, total: undefined };
  if (state === 'waiting' || state === 'verifying') return { state, bytes, total };
  if (state === 'downloading') {
    const told = (detail ?? {}) as { current?: unknown; total?: unknown };
    return {
      state,
      // An engine that starts a layer again starts to count again.
      bytes: typeof told.current === 'number' ? Math.max(bytes, told.current) : bytes,
      total: typeof told.total === 'number' && told.total > 0 ? told.total : total,
    };
  }
  // Small layers come without a line of their size.
  const all = Math.max(total ?? 0, bytes);
  return { state, bytes: all, total: all };
}

/**
 * Silence is a stall in all but `extracting` (IC-8), which stands for all work of the engine itself: the network is
 * not waited for while a layer is verified, unless another one is coming in.
 */
function phaseOf(count: Readonly<Record<LayerState, number>>): Progress['phase'] {
  if (count.downloading > 0) return 'downloading';
  if (count.verifying > 0) return 'extracting';
  return count.waiting > 0 ? 'downloading' : 'extracting';
}
