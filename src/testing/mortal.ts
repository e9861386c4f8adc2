import { type Clock, systemClock } from '../clock.js';
import type { Env } from '../env.js';
import { invalidOption } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import type { StateStore } from '../store/store.js';

/** An env, and the end of the process that uses it. */
export interface Mortal<E> {
  /** The same ports, while it lives. */
  readonly env: E;
  /**
   * From now on no call reaches a port, no timer fires, nothing that a port was asked settles: what was built on the env
   * stands still for good, as if its process had been killed. The ports themselves live on, for the next life.
   */
  kill(): void;
  /**
   * Kills when the store is asked for a batch.
   *
   * @param n - how many batches, counted from here, go well before; 0 = the next one kills
   * @param o.written - `true`: the store gets the batch that kills, and only its answer is lost. Default `false`: the
   *   store never sees it
   * @throws HandoverError `ERR_INVALID_OPTION` when `n` is no whole number, or the env has no store
   */
  killAtBatch(n: number, o?: { readonly written?: boolean }): void;
  /** Resolves with the death. */
  readonly dead: Promise<void>;
}

/**
 * Makes an env that can be killed: by it, a test ends an orchestrator as a crash does, without any of the cleaning up
 * that `close()` is for.
 *
 * @param env - the ports; those that are not there stay away, except that there is always a clock
 */
export function mortal<E extends Env & { readonly store?: StateStore | undefined }>(env: E): Mortal<E> {
  const life = new Life();
  return {
    env: life.env({ ...env, clock: env.clock ?? systemClock }),
    kill: () => life.kill(),
    killAtBatch(n, { written = false } = {}) {
      if (!Number.isSafeInteger(n) || n < 0) throw invalidOption('n', 'must be a whole number from 0');
      if (env.store === undefined) throw invalidOption('env.store', 'is missing, so there are no batches');
      life.lastBatch = { left: n, written };
    },
    dead: life.dead.promise,
  };
}

type Method = (...args: readonly unknown[]) => unknown;

class Life {
  readonly dead = deferred();
  lastBatch = { left: Infinity, written: false };
  #alive = true;
  readonly #timers = new Set<() => void>();

  env<E extends { readonly clock: Clock }>(env: E): E {
    const ports = Object.entries(env).map(([name, port]: [string, unknown]) => [name, this.#port(name, port)]);
    return Object.fromEntries(ports) as E;
  }

  kill(): void {
    this.#alive = false;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.dead.resolve();
  }

  #port(name: string, port: unknown): unknown {
    if (typeof port === 'function') return this.#method(port as Method);
    if (typeof port !== 'object' || port === null) return port;
    if (name === 'clock') return replace(port, (key, member) => (key === 'timer' ? this.#timer(member) : member));
    if (name === 'store') {
      return replace(port, (key, member) => this.#method(key === 'batch' ? this.#counted(member) : member));
    }
    return this.#mortal(port);
  }

  #mortal(port: object): object {
    return replace(port, (_, member) => this.#method(member));
  }

  /** A method that reaches its port only in this life, as do its answer and what it calls back. */
  #method(method: Method): Method {
    return (...args) => {
      if (!this.#alive) return never();
      const answer = method(...args.map((arg) => (typeof arg === 'function' ? this.#callback(arg as Method) : arg)));
      if (answer instanceof Promise) return this.#inThisLife(answer);
      return isAsyncIterable(answer) ? this.#mortal(answer) : answer;
    };
  }

  #callback(callback: Method): Method {
    return (...args) => (this.#alive ? callback(...args) : undefined);
  }

  /** Reading the time harms nobody, so only timers end with the life. */
  #timer(timer: Method): Clock['timer'] {
    return (ms, fire, o) => {
      if (!this.#alive) return () => undefined;
      const off = timer(
        ms,
        () => {
          this.#timers.delete(cancel);
          fire();
        },
        o,
      ) as () => void;
      const cancel = (): void => {
        this.#timers.delete(cancel);
        off();
      };
      this.#timers.add(cancel);
      return cancel;
    };
  }

  #counted(batch: Method): Method {
    return (ops) => {
      if (this.lastBatch.left-- > 0) return batch(ops);
      const answer = this.lastBatch.written ? batch(ops) : undefined;
      this.kill();
      return this.#inThisLife(Promise.resolve(answer));
    };
  }

  #inThisLife(answer: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      answer.then(
        (value) => this.#alive && resolve(value),
        (error: unknown) => {
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the port's own reason
          if (this.#alive) reject(error);
        },
      );
    });
  }
}

/** The same object with other methods; whatever it keeps to itself stays within its reach. */
function replace(port: object, method: (name: string | symbol, member: Method) => unknown): object {
  return new Proxy(port, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? method(name, member.bind(target) as Method) : member;
    },
  });
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

/** An answer of any kind that does not come: a promise, or something to iterate over. */
function never(): Promise<never> & AsyncIterable<never> {
  const next = (): Promise<never> => new Promise(() => undefined);
  return Object.assign(next(), { [Symbol.asyncIterator]: () => ({ next }) });
}
