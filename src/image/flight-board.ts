import type { Flight } from './flight.js';
import type { Artifact } from './types.js';

/** The flights in the air: at most one for each key (IC-3). */
export class FlightBoard<A extends Artifact> {
  readonly #byKey = new Map<string, Flight<A>>();
  readonly #byReference = new Map<string, Set<Flight<A>>>();

  get all(): readonly Flight<A>[] {
    return [...this.#byKey.values()];
  }

  get(flightKey: string): Flight<A> | undefined {
    return this.#byKey.get(flightKey);
  }

  /** The flights of a reference, one for each platform and credential scope. */
  of(reference: string): readonly Flight<A>[] {
    return [...(this.#byReference.get(reference) ?? [])];
  }

  add(flight: Flight<A>): void {
    this.#byKey.set(flight.flightKey, flight);
    const kin = this.#byReference.get(flight.name.key) ?? new Set();
    this.#byReference.set(flight.name.key, kin.add(flight));
  }

  /** Takes the flight off; only itself, never one that took its place (IC-5). */
  delete(flight: Flight<A>): void {
    if (this.#byKey.get(flight.flightKey) === flight) this.#byKey.delete(flight.flightKey);
    const kin = this.#byReference.get(flight.name.key);
    kin?.delete(flight);
    if (kin?.size === 0) this.#byReference.delete(flight.name.key);
  }
}
