import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import type { Ground } from '../env.js';
import { HandoverError } from '../errors.js';
import { Emitter } from '../events.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { type Deferred, deferred } from '../internal/deferred.js';
import { messageOf } from '../internal/message-of.js';
import { onAbort, sleep, withDeadline } from '../internal/signals.js';
import type { Registrar, ServiceInstance } from './types.js';

/** One call to the registry: longer than any healthy one takes, so that a slow registry is not asked twice (G-8). */
const ATTEMPT_MS = 10_000;
/** Between two tries; the first soon, because a stop waits for it, and none so late that an entry lingers. */
const RETRY: BackoffOptions = { first: 250, max: 30_000, jitter: 'full' };

type Wanted = 'register' | 'deregister';

/** What is wanted of one instance, until the registry agrees or something else is wanted. */
class Intent {
  readonly agreed: Deferred<'agreed' | 'superseded'> = deferred();
  /** Ends the sleep between two tries. */
  readonly wake = new AbortController();
  /** Callers whose signal has not withdrawn it. */
  holders = 0;
  /** Callers that wait for it now: as long as there are any, its timers keep the process alive (G-5). */
  waiting = 0;

  constructor(
    readonly instance: ServiceInstance,
    readonly wanted: Wanted,
  ) {}
}

/**
 * What is wanted of each instance of one registry (SS-3). Calls are serialised per instance and the latest intent
 * wins, so a late retry never takes off what was registered again. An intent lives on in the background, with
 * backoff, until the registry agrees; its timers then do not keep the process alive.
 */
export class Registrations {
  /** Instance id → what is wanted of it; `undefined` once withdrawn while the last call still runs. */
  readonly #intents = new Map<string, Intent | undefined>();
  /** Instance id → aborts the call in flight, which may still be for an intent that was superseded. */
  readonly #flights = new Map<string, AbortController>();
  /** Instance id → the end of the work on it. */
  readonly #workers = new Map<string, Promise<void>>();
  readonly #clock: Clock;
  readonly #emitter: Emitter<never>;

  constructor(
    private readonly registrar: Registrar,
    ground: Ground,
  ) {
    this.#clock = ground.clock;
    this.#emitter = new Emitter(ground);
  }

  /** Resolves once nothing runs any more for intents that were withdrawn: no call, no timer. */
  async withdrawn(): Promise<void> {
    await Promise.all([...this.#workers].flatMap(([id, work]) => (this.#intents.get(id) === undefined ? [work] : [])));
  }

  /**
   * Wants the instance registered. Resolves when the registry has acknowledged it, or when it is to be taken off again.
   *
   * @param call.signal - withdraws the intent, as long as it lives; so a signal of the library's own, not of a caller
   * @throws the signal's reason
   */
  async register(instance: ServiceInstance, call: Call): Promise<void> {
    await this.#want(instance, 'register', call, Infinity);
  }

  /**
   * Wants the instance taken off. Resolves when the registry has acknowledged it.
   *
   * @param call.signal - as in {@link Registrations.register}
   * @param call.timeout - milliseconds to wait, retries included; the intent lives on after it. Default: for ever
   * @throws HandoverError `ERR_DEREGISTER_FAILED` at the timeout, or when the instance is wanted registered again;
   *   the signal's reason
   */
  async deregister(instance: ServiceInstance, call: Call & { readonly timeout?: number }): Promise<void> {
    const ending = await this.#want(instance, 'deregister', call, call.timeout ?? Infinity);
    if (ending === 'superseded') throw failed(instance, 'it was registered again meanwhile');
  }

  async #want(
    instance: ServiceInstance,
    wanted: Wanted,
    { signal }: Call,
    timeout: number,
  ): Promise<'agreed' | 'superseded'> {
    signal?.throwIfAborted();
    const intent = this.#intend(instance, wanted);
    this.#hold(intent, signal);
    intent.waiting++;
    try {
      const late = (): Error =>
        failed(instance, `no acknowledgement in ${timeout} ms; it is tried on in the background`);
      return await withDeadline(this.#clock, timeout, signal, late, () => intent.agreed.promise);
    } finally {
      intent.waiting--;
    }
  }

  /** The intent that is worked on: the one there is, if it wants the same, else a new one in its place. */
  #intend(instance: ServiceInstance, wanted: Wanted): Intent {
    const present = this.#intents.get(instance.id);
    if (present?.wanted === wanted) return present;
    const intent = new Intent(instance, wanted);
    const working = this.#intents.has(instance.id);
    this.#intents.set(instance.id, intent);
    present?.agreed.resolve('superseded');
    present?.wake.abort();
    if (!working) this.#workers.set(instance.id, this.#work(instance.id));
    return intent;
  }

  #hold(intent: Intent, signal: AbortSignal | undefined): void {
    intent.holders++;
    const dispose = onAbort(signal, () => {
      if (--intent.holders > 0) return;
      if (this.#intents.get(intent.instance.id) === intent) this.#intents.set(intent.instance.id, undefined);
      intent.wake.abort();
      this.#flights.get(intent.instance.id)?.abort();
    });
    void intent.agreed.promise.then(dispose);
  }

  /** Brings the registry to what is wanted of one instance, however often that changes meanwhile. */
  async #work(id: string): Promise<void> {
    let failures = 0;
    let last: Intent | undefined;
    for (let intent = this.#intents.get(id); intent !== undefined; intent = this.#intents.get(id)) {
      if (intent !== last) failures = 0;
      last = intent;
      try {
        await this.#attempt(intent);
        intent.agreed.resolve('agreed');
        if (this.#intents.get(id) === intent) break;
      } catch (error) {
        if (this.#intents.get(id) === intent) await this.#later(intent, ++failures, error);
      }
    }
    this.#intents.delete(id);
    this.#workers.delete(id);
  }

  async #attempt({ instance, wanted }: Intent): Promise<void> {
    const late = (): Error => new Error(`the registry did not answer in ${ATTEMPT_MS} ms`);
    const flight = new AbortController();
    this.#flights.set(instance.id, flight);
    try {
      await withDeadline(this.#clock, ATTEMPT_MS, flight.signal, late, async (signal) =>
        this.registrar[wanted](instance, { signal }),
      );
    } finally {
      this.#flights.delete(instance.id);
    }
  }

  async #later({ instance, wanted, wake, waiting }: Intent, failures: number, error: unknown): Promise<void> {
    if (failures === 1) {
      this.#emitter.warn(instance.id, {
        code: 'registry-unanswered',
        message: `The registry did not ${wanted} ${instance.id}; it is asked again until it does: ${messageOf(error)}`,
      });
    }
    const ms = backoff(RETRY, failures, this.#clock);
    await sleep(this.#clock, ms, { signal: wake.signal, keepAlive: waiting > 0 }).catch(() => undefined);
  }
}

function failed(instance: ServiceInstance, why: string): HandoverError<'ERR_DEREGISTER_FAILED'> {
  return new HandoverError(
    'ERR_DEREGISTER_FAILED',
    `Instance ${instance.id} of service ${instance.service} could not be taken off the registry: ${why}`,
    { details: { instance: instance.id }, retryable: true },
  );
}

const KNOWN = new WeakMap<Registrar, Registrations>();

/**
 * The one {@link Registrations} of a registrar, so that all who use it work on the same intents. Clock and events are
 * those of whoever asked first.
 */
export function registrationsOf(registrar: Registrar, ground: Ground): Registrations {
  const known = KNOWN.get(registrar) ?? new Registrations(registrar, ground);
  KNOWN.set(registrar, known);
  return known;
}
