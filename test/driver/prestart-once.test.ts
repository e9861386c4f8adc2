import {
  type Call,
  type PreparedTask,
  type Progress,
  type PrestartContext,
  isHandoverError,
  prestartOnce,
} from 'handover';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { type Deferred, deferred } from '../../src/internal/deferred.js';
import { onAbort } from '../../src/internal/signals.js';

/** A driver whose work is ended by hand; its abort takes as long as the test likes. */
class HandDriver {
  readonly name = 'hand';
  readonly calls: string[] = [];
  readonly works: { readonly ctx: PrestartContext<unknown>; readonly done: Deferred<void> }[] = [];
  readonly #gone = new Set<PreparedTask>();
  undoing: Promise<void> = Promise.resolve();
  discardFails = false;
  /** What starts wait for, one after the other. */
  readonly starts: Promise<void>[] = [];

  parse(input: unknown): unknown {
    return input;
  }

  exclusive(): readonly [] {
    return [];
  }

  async prestart(ctx: PrestartContext<unknown>): Promise<PreparedTask> {
    this.calls.push(`prestart ${ctx.specHash}`);
    const done = deferred();
    this.works.push({ ctx, done });
    const off = onAbort(ctx.signal, done.reject);
    try {
      await done.promise;
    } catch (error) {
      this.calls.push(`undo ${ctx.specHash}`);
      await this.undoing;
      throw error;
    } finally {
      off();
    }
    return this.#prepared(ctx);
  }

  async start(prepared: PreparedTask, _call: Call): Promise<string> {
    this.calls.push(`start ${prepared.specHash}`);
    await this.starts.shift();
    return 'handle';
  }

  lose(prepared: PreparedTask): void {
    this.#gone.add(prepared);
  }

  #prepared({ owner, specHash }: PrestartContext<unknown>): PreparedTask {
    const prepared: PreparedTask = {
      owner,
      specHash,
      intact: async () => !this.#gone.has(prepared),
      discard: async () => {
        this.calls.push(`discard ${specHash}`);
        await this.undoing;
        if (this.discardFails) throw new Error('discard failed');
        this.#gone.add(prepared);
      },
      [Symbol.asyncDispose]: () => prepared.discard(),
    };
    return prepared;
  }
}

function context(
  specHash: string,
  signal?: AbortSignal,
  owner = 'web-1/web',
): PrestartContext<unknown> & { seen: Progress[] } {
  const [allocId = '', task = ''] = owner.split('/');
  const seen: Progress[] = [];
  return { owner, allocId, task, spec: {}, specHash, report: (p) => seen.push(p), signal, seen };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('prestartOnce', () => {
  let driver: HandDriver;
  beforeEach(() => {
    driver = prestartOnce(new HandDriver());
  });

  it('DP-2 keeps the class, with its private fields', () => {
    expect(driver).toBeInstanceOf(HandDriver);
    expect(driver.exclusive()).toEqual([]);
  });

  it('DP-2 S44 the same spec joins the one in flight: one work, one result', async () => {
    const both = [driver.prestart(context('v1')), driver.prestart(context('v1'))];
    driver.works[0]!.done.resolve();
    const [a, b] = await Promise.all(both);
    expect(a).toBe(b);
    expect(driver.calls).toEqual(['prestart v1']);
  });

  it.each(['discard', 'start'] as const)(
    'DP-2: what is gone by a %s while it is looked at is handed to nobody: it is prepared anew',
    async (deed) => {
      const first = driver.prestart(context('v1'));
      driver.works[0]!.done.resolve();
      const prepared = await first;
      const look = deferred<boolean>();
      prepared.intact = () => look.promise;
      const second = driver.prestart(context('v1'));
      await turn();
      if (deed === 'discard') await prepared.discard();
      else await driver.start(prepared, {});
      look.resolve(true);
      await turn();
      expect(driver.works).toHaveLength(2);
      driver.works[1]!.done.resolve();
      expect(await second).not.toBe(prepared);
      expect(driver.calls.filter((call) => call.startsWith('discard'))).toHaveLength(deed === 'discard' ? 1 : 0);
    },
  );

  it('DP-2 the same spec gets what is prepared already, while it is intact', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.resolve();
    expect(await driver.prestart(context('v1'))).toBe(await first);
    expect(driver.calls).toEqual(['prestart v1']);
  });

  it('AL-3 what somebody removed is not joined but prepared anew', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.resolve();
    driver.lose(await first);
    const second = driver.prestart(context('v1'));
    await turn();
    driver.works[1]!.done.resolve();
    expect(await second).not.toBe(await first);
    expect(driver.calls).toEqual(['prestart v1', 'discard v1', 'prestart v1']);
  });

  it('DP-2 owners are apart', async () => {
    void driver.prestart(context('v1'));
    void driver.prestart(context('v1', undefined, 'web-2/web'));
    await turn();
    expect(driver.calls).toEqual(['prestart v1', 'prestart v1']);
  });

  it('DP-2 S44 another spec calls off the one in flight, and begins only after its undo', async () => {
    const undone = deferred();
    driver.undoing = undone.promise;
    const first = driver.prestart(context('v1')).catch((error: unknown) => error);
    const second = driver.prestart(context('v2'));
    await turn();
    expect(driver.calls).toEqual(['prestart v1', 'undo v1']);
    undone.resolve();
    const error = await first;
    expect(isHandoverError(error, 'ERR_PRESTART_FAILED') && error.details).toEqual({ allocId: 'web-1', task: 'web' });
    await turn();
    driver.works[1]!.done.resolve();
    expect((await second).specHash).toBe('v2');
    expect(driver.calls).toEqual(['prestart v1', 'undo v1', 'prestart v2']);
  });

  it('DP-2 another spec discards what is prepared before it begins', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.resolve();
    await first;
    const second = driver.prestart(context('v2'));
    await turn();
    driver.works[1]!.done.resolve();
    await second;
    expect(driver.calls).toEqual(['prestart v1', 'discard v1', 'prestart v2']);
  });

  it('DP-1 a discard that failed is tried again before anything else is prepared', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.resolve();
    await first;
    driver.discardFails = true;
    await expect(driver.prestart(context('v2'))).rejects.toThrow('discard failed');
    driver.discardFails = false;
    const second = driver.prestart(context('v2'));
    await turn();
    driver.works[1]!.done.resolve();
    await second;
    expect(driver.calls).toEqual(['prestart v1', 'discard v1', 'discard v1', 'prestart v2']);
  });

  it('DP-2 a joiner that leaves harms nobody, also the first', async () => {
    const first = new AbortController();
    const leaver = driver.prestart(context('v1', first.signal));
    const stayer = driver.prestart(context('v1'));
    first.abort(new Error('not me'));
    await expect(leaver).rejects.toThrow('not me');
    driver.works[0]!.done.resolve();
    await expect(stayer).resolves.toMatchObject({ specHash: 'v1' });
    expect(driver.calls).toEqual(['prestart v1']);
  });

  it('G-4 the last joiner that leaves aborts, and rejects with its reason only after the undo', async () => {
    const undone = deferred();
    driver.undoing = undone.promise;
    const [a, b] = [new AbortController(), new AbortController()];
    const first = driver.prestart(context('v1', a.signal));
    const second = driver.prestart(context('v1', b.signal));
    let settled = false;
    const last = second.catch((error: unknown) => error).finally(() => (settled = true));
    a.abort(new Error('a'));
    await expect(first).rejects.toThrow('a');
    b.abort(new Error('b'));
    await turn();
    expect([driver.calls, settled]).toEqual([['prestart v1', 'undo v1'], false]);
    undone.resolve();
    expect(String(await last)).toBe('Error: b');
  });

  it('DP-2 whoever comes while an aborted one winds down starts afresh and never inherits the abort', async () => {
    const undone = deferred();
    driver.undoing = undone.promise;
    const leaving = new AbortController();
    const left = driver.prestart(context('v1', leaving.signal)).catch(() => undefined);
    leaving.abort(new Error('left'));
    await turn();
    const next = driver.prestart(context('v1'));
    await turn();
    expect(driver.works).toHaveLength(1);
    undone.resolve();
    await left;
    await turn();
    driver.works[1]!.done.resolve();
    await expect(next).resolves.toMatchObject({ specHash: 'v1' });
  });

  it('DP-3 work that succeeds in spite of its abort is discarded', async () => {
    const leaving = new AbortController();
    const left = driver.prestart(context('v1', leaving.signal));
    driver.works[0]!.done.resolve();
    leaving.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    expect(driver.calls).toEqual(['prestart v1', 'discard v1']);
  });

  it('DP-2 work that succeeds in spite of being superseded is discarded, and its caller told so', async () => {
    const first = driver.prestart(context('v1')).catch((error: unknown) => error);
    driver.works[0]!.done.resolve();
    void driver.prestart(context('v2'));
    expect(isHandoverError(await first, 'ERR_PRESTART_FAILED')).toBe(true);
    await turn();
    expect(driver.calls).toEqual(['prestart v1', 'discard v1', 'prestart v2']);
  });

  it('IC-5 a failure is forgotten: the next call begins anew', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.reject(new Error('no such image'));
    await expect(first).rejects.toThrow('no such image');
    void driver.prestart(context('v1'));
    expect(driver.works).toHaveLength(2);
  });

  it('DP-1 after a discard, and while it runs, the same spec is prepared anew', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.resolve();
    const prepared = await first;
    const undone = deferred();
    driver.undoing = undone.promise;
    const discarded = prepared[Symbol.asyncDispose]();
    const second = driver.prestart(context('v1'));
    await turn();
    expect(driver.works).toHaveLength(1);
    undone.resolve();
    await discarded;
    await turn();
    expect(driver.works).toHaveLength(2);
    driver.works[1]!.done.resolve();
    await second;
  });

  it('DP-1 after its start the same spec is prepared anew, and the started one is left alone', async () => {
    const first = driver.prestart(context('v1'));
    driver.works[0]!.done.resolve();
    expect(await driver.start(await first, {})).toBe('handle');
    void driver.prestart(context('v1'));
    await turn();
    expect(driver.calls).toEqual(['prestart v1', 'start v1', 'prestart v1']);
  });

  describe('while it is being started', () => {
    let prepared: PreparedTask;
    let start: Deferred<void>;
    let handle: Promise<unknown>;
    beforeEach(async () => {
      const first = driver.prestart(context('v1'));
      driver.works[0]!.done.resolve();
      prepared = await first;
      start = deferred();
      driver.starts.push(start.promise);
      handle = driver.start(prepared, {}).catch((error: unknown) => error);
    });

    it.each(['v1', 'v2'])(
      'DP-1 whoever prepares %s waits for what comes of that: started, it is prepared anew',
      async (hash) => {
        void driver.prestart(context(hash));
        await turn();
        expect(driver.calls).toEqual(['prestart v1', 'start v1']);
        start.resolve();
        expect(await handle).toBe('handle');
        await turn();
        expect(driver.calls).toEqual(['prestart v1', 'start v1', `prestart ${hash}`]);
      },
    );

    it('DP-2 the start failed: what is prepared is joined again', async () => {
      const second = driver.prestart(context('v1'));
      start.reject(new Error('port taken'));
      expect(await second).toBe(prepared);
      expect(driver.calls).toEqual(['prestart v1', 'start v1']);
    });

    it('DP-2 the start failed: for another spec it is discarded first', async () => {
      void driver.prestart(context('v2'));
      start.reject(new Error('port taken'));
      await handle;
      await turn();
      expect(driver.calls).toEqual(['prestart v1', 'start v1', 'discard v1', 'prestart v2']);
    });

    it('G-4 whoever waits may leave', async () => {
      const controller = new AbortController();
      const waiter = driver.prestart(context('v1', controller.signal));
      controller.abort(new Error('left'));
      await expect(waiter).rejects.toThrow('left');
      start.resolve();
      expect(await handle).toBe('handle');
    });

    it('DP-1 a second start is waited for too', async () => {
      const again = deferred();
      driver.starts.push(again.promise);
      void driver.start(prepared, {});
      void driver.prestart(context('v1'));
      start.reject(new Error('port taken'));
      await handle;
      await turn();
      expect(driver.calls).toEqual(['prestart v1', 'start v1', 'start v1']);
      again.resolve();
      await turn();
      expect(driver.calls).toEqual(['prestart v1', 'start v1', 'start v1', 'prestart v1']);
    });

    it('DP-1 a start that begins while it is looked at is waited for', async () => {
      start.reject(new Error('port taken'));
      await handle;
      const look = deferred<boolean>();
      prepared.intact = () => look.promise;
      const second = driver.prestart(context('v1'));
      await turn();
      const last = deferred();
      driver.starts.push(last.promise);
      void driver.start(prepared, {});
      look.resolve(true);
      await turn();
      last.resolve();
      await turn();
      driver.works[1]!.done.resolve();
      expect(await second).not.toBe(prepared);
    });
  });

  it('IC-12 every joiner is told the progress, a late one the latest at once', async () => {
    const early = context('v1');
    const late = context('v1');
    void driver.prestart(early);
    const progress: Progress = { phase: 'downloading', attempt: 1, bytes: { done: 5 } };
    driver.works[0]!.ctx.report(progress);
    void driver.prestart(late);
    expect([early.seen, late.seen]).toEqual([[progress], [progress]]);
  });

  it('case C61 nothing stays on a caller’s signal', async () => {
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, 'addEventListener');
    const removed = vi.spyOn(signal, 'removeEventListener');
    const first = driver.prestart(context('v1', signal));
    driver.works[0]!.done.resolve();
    await first;
    await driver.prestart(context('v1', signal));
    expect(added).toHaveBeenCalled();
    expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(
      added.mock.calls.map(([, listener]) => listener),
    );
  });
});
