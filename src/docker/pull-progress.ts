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
  state: LayerState;
  bytes: number;
  total: number | undefined;
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
  #last: { readonly id: unknown; readonly status: string } | undefined;

  /** The last line, for the error of a pull that ends in silence. */
  get last(): string {
    const { id, status = '' } = this.#last ?? {};
    return typeof id === 'string' ? `${id}: ${status}` : status;
  }

  /** How far the pull is. */
  get now(): Omit<Progress, 'attempt'> {
    const { last } = this;
    const layers = this.#layers.size;
    const sized = this.#unsized === 0 && this.#total > 0;
    return {
      phase: layers === 0 ? 'resolving' : phaseOf(this.#count),
      bytes: { done: this.#bytes, ...(sized && { total: this.#total }) },
      ...(layers > 0 && { layers: { done: this.#count.done, total: layers } }),
      ...(last !== '' && { note: last }),
    };
  }

  /** Takes one line in. */
  read(line: JsonObject): void {
    const { status, id } = line;
    if (typeof status !== 'string') return;
    this.#last = { id, status };
    if (typeof id !== 'string') return;
    const state = LAYER_STATES[status] ?? (RETRYING.test(status) ? 'waiting' : undefined);
    if (state !== undefined) this.#move(id, state, line['progressDetail']);
  }

  #move(id: string, state: LayerState, detail: unknown): void {
    let layer = this.#layers.get(id);
    if (layer === undefined) this.#layers.set(id, (layer = { state, bytes: 0, total: undefined }));
    else this.#add(layer, -1);
    move(layer, state, detail);
    this.#add(layer, 1);
  }

  #add({ state, bytes, total }: Layer, sign: 1 | -1): void {
    this.#count[state] += sign;
    this.#bytes += sign * bytes;
    this.#total += sign * (total ?? 0);
    this.#unsized += total === undefined ? sign : 0;
  }
}

function move(layer: Layer, state: LayerState, detail: unknown): void {
  layer.state = state;
  if (state === 'waiting' || state === 'verifying') return;
  if (state === 'downloading') {
    const { current, total } = (detail ?? {}) as { current?: unknown; total?: unknown };
    // An engine that starts a layer again starts to count again.
    if (typeof current === 'number') layer.bytes = Math.max(layer.bytes, current);
    if (typeof total === 'number' && total > 0) layer.total = total;
  } else {
    // Small layers come without a line of their size.
    layer.bytes = layer.total = Math.max(layer.total ?? 0, layer.bytes);
  }
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
