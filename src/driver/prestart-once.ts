import type { Call } from '../call.js';
import { HandoverError } from '../errors.js';
import type { Progress } from '../image/types.js';
import { checkContext } from '../internal/check-call.js';
import { abortable } from '../internal/signals.js';
import type { DriverPrestart, PreparedTask, PrestartContext } from './driver.js';

type Context = PrestartContext<unknown>;
type Work = (ctx: Context) => Promise<PreparedTask>;

/** One preparation, from its first caller until it has failed, was discarded or was started. */
class Preparation {
  readonly controller = new AbortController();
  /** Whoever waits for it, or has got it. */
  readonly joined = new Set<Context>();
  result!: Promise<PreparedTask>;
  progress: Progress | undefined;
  /** What came of it, with the driver's own discard. */
  done: { readonly prepared: PreparedTask; readonly discard: PreparedTask['discard'] } | undefined;
  /** Its starts, while one is under way: whether the task is its handle's is open. */
  starting: Promise<unknown> | undefined;
  /** Its undoing, while that runs: nobody joins it any more, and the next one waits for it. */
  leaving: Promise<void> | undefined;

  constructor(
    readonly owner: string,
    readonly specHash: string,
  ) {}

  isStarting(): boolean {
    return this.starting !== undefined;
  }

  /** Whether who wants this spec may join it. */
  isOpenTo({ specHash }: Context): boolean {
    return this.leaving === undefined && this.specHash === specHash;
  }
}

/** The preparations of one driver, by owner. */
class Preparations {
  readonly #current = new Map<string, Preparation>();

  constructor(private readonly work: Work) {}

  async prestart(ctx: Context): Promise<PreparedTask> {
    checkContext(ctx);
    for (;;) {
      ctx.signal?.throwIfAborted();
      const current = this.#current.get(ctx.owner);
      if (current === undefined) return this.#join(this.#begin(ctx), ctx);
      if (current.starting !== undefined) {
        await abortable(current.starting, ctx.signal);
        continue;
      }
      if (current.isOpenTo(ctx)) {
        if (current.done === undefined) return this.#join(current, ctx);
        // Somebody may have removed it behind our back: then it is nothing to join (AL-3).
        const intact = await current.done.prepared.intact(ctx);
        // Started or discarded while we looked: then it is not there for us any more, or not for long.
        if (this.#current.get(ctx.owner) !== current || current.isStarting()) continue;
        if (intact && current.isOpenTo(ctx)) return current.done.prepared;
      }
      await abortable(this.#retire(current, superseded(ctx)), ctx.signal);
    }
  }

  /** A started task is its handle's (DP-1): the same spec may be prepared anew. */
  async start<T>(prepared: PreparedTask, start: () => Promise<T>): Promise<T> {
    const current = this.#current.get((prepared as PreparedTask | null | undefined)?.owner ?? '');
    if (current?.done?.prepared !== prepared) return start();
    const started = start().then((handle) => {
      this.#forget(current);
      return handle;
    });
    const starting = Promise.allSettled([current.starting, started]).finally(() => {
      if (current.starting === starting) current.starting = undefined;
    });
    current.starting = starting;
    return started;
  }

  #begin(ctx: Context): Preparation {
    const preparation = new Preparation(ctx.owner, ctx.specHash);
    this.#current.set(ctx.owner, preparation);
    preparation.result = this.#run(preparation, ctx);
    return preparation;
  }

  async #run(preparation: Preparation, ctx: Context): Promise<PreparedTask> {
    const { signal } = preparation.controller;
    const report = (progress: Progress): void => {
      preparation.progress = progress;
      for (const caller of preparation.joined) caller.report(progress);
    };
    try {
      const prepared = await this.work({ ...ctx, signal, report });
      if (!signal.aborted) return this.#watch(preparation, prepared);
      await prepared.discard();
      throw signal.reason;
    } catch (error) {
      this.#forget(preparation);
      throw error;
    }
  }

  /** Learns of the discard of what was prepared. */
  #watch(preparation: Preparation, prepared: PreparedTask): PreparedTask {
    const discard = prepared.discard.bind(prepared);
    preparation.done = { prepared, discard };
    prepared.discard = (call) => this.#leave(preparation, () => discard(call));
    prepared[Symbol.asyncDispose] = () => prepared.discard();
    return prepared;
  }

  async #join(preparation: Preparation, ctx: Context): Promise<PreparedTask> {
    preparation.joined.add(ctx);
    if (preparation.progress !== undefined) ctx.report(preparation.progress);
    try {
      return await abortable(preparation.result, ctx.signal);
    } catch (error) {
      preparation.joined.delete(ctx);
      if (preparation.joined.size === 0 && ctx.signal?.aborted === true) {
        // Not before the undo has ended (G-4). One that failed is tried again by whoever comes next for this owner.
        await this.#retire(preparation, ctx.signal.reason).catch(() => undefined);
      }
      throw error;
    }
  }

  #retire(preparation: Preparation, reason: unknown): Promise<void> {
    return this.#leave(preparation, async () => {
      preparation.controller.abort(reason);
      await preparation.result.catch(() => undefined);
      await preparation.done?.discard();
    });
  }

  #leave(preparation: Preparation, undo: () => Promise<void>): Promise<void> {
    preparation.leaving ??= undo()
      .then(() => this.#forget(preparation))
      .finally(() => (preparation.leaving = undefined));
    return preparation.leaving;
  }

  #forget(preparation: Preparation): void {
    if (this.#current.get(preparation.owner) === preparation) this.#current.delete(preparation.owner);
  }
}

function superseded(by: Context): HandoverError {
  return new HandoverError(
    'ERR_PRESTART_FAILED',
    `The preparation of ${by.owner} was called off because another spec is being prepared for it; prepare again if this one is still wanted`,
    { details: { allocId: by.allocId, task: by.task } },
  );
}

/**
 * Gives a driver the idempotence that DP-2 asks of `prestart()`, for driver authors; call it on the instance, or in its
 * constructor.
 *
 * For one owner, a call with the same spec hash joins the preparation in flight, or gets what is prepared already and
 * still intact; another hash discards the first one and then prepares. Each caller has its own abort signal: one that
 * leaves harms nobody, and the last one to leave calls the work off and waits for its undo. What is prepared is shared:
 * a discard by one is a discard for all. A preparation ends as such when it fails, is discarded or has been started; a
 * call that comes while it is being started waits for what comes of that.
 *
 * Leftovers of earlier processes are the driver's own to find.
 *
 * What is no context is refused with `ERR_INVALID_OPTION` before the driver is asked.
 *
 * @param driver - must not be frozen, nor may what it prepares: `prestart`, `start` and the tasks' `discard` are
 *   replaced in place, so that the class with its private fields stays what it is
 * @returns the same driver
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- any driver will do; its own types come out as they went in
export function prestartOnce<D extends DriverPrestart<any, any>>(driver: D): D {
  const target: DriverPrestart<unknown> & { start?(prepared: PreparedTask, call: Call): Promise<unknown> } = driver;
  const preparations = new Preparations(target.prestart.bind(target));
  const start = target.start?.bind(target);
  target.prestart = (ctx) => preparations.prestart(ctx);
  if (start !== undefined) {
    target.start = async (prepared, call) => preparations.start(prepared, () => start(prepared, call));
  }
  return driver;
}
