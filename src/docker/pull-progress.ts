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
    const layer = this.#layers.get(id) ?? { state, bytes: 0, total: undefined };
    this.#layers.set(id, layer);
    layer.state = state;
    if (state === 'downloading') {
      const { current, total } = (detail ?? {}) as { current?: unknown; total?: unknown };
      // An engine that starts a layer again starts to count again.
      if (typeof current === 'number') layer.bytes = Math.max(layer.bytes, current);
      if (typeof total === 'number' && total > 0) layer.total = total;
    } else if (state !== 'waiting' && state !== 'verifying') {
      // Small layers come without a line of their size.
      layer.total = Math.max(layer.total ?? 0, layer.bytes);
      layer.bytes = layer.total;
    }
  }

  #snapshot(): Omit<Progress, 'attempt'> {
    const layers = [...this.#layers.values()];
    const sized = layers.every(({ total }) => total !== undefined);
    const total = layers.reduce((sum, layer) => sum + (layer.total ?? 0), 0);
    return {
      phase: phaseOf(layers),
      bytes: { done: layers.reduce((sum, { bytes }) => sum + bytes, 0), ...(sized && total > 0 ? { total } : {}) },
      ...(layers.length > 0 && {
        layers: { done: layers.filter(({ state }) => state === 'done').length, total: layers.length },
      }),
    };
  }
}

/**
 * Silence is a stall in all but `extracting` (IC-8), which stands for all work of the engine itself: the network is
 * not waited for while a layer is verified, unless another one is coming in.
 */
function phaseOf(layers: readonly Layer[]): Progress['phase'] {
  const any = (state: LayerState): boolean => layers.some((layer) => layer.state === state);
  if (layers.length === 0) return 'resolving';
  if (any('downloading')) return 'downloading';
  if (any('verifying')) return 'extracting';
  return any('waiting') ? 'downloading' : 'extracting';
}
