import type { TaskHandle } from 'handover';
import type { DockerPrepared } from 'handover/docker';
import type { FakeFault } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { type Bench, bench, moving } from './driver-bench.js';

const FAULTS: Readonly<Record<string, FakeFault>> = {
  'was lost before it was heard': { lose: 'request' },
  'was heard, and its answer lost': { lose: 'answer' },
  'was never heard nor answered': { silence: 'request' },
  'was heard and never answered': { silence: 'answer' },
  'was refused by an engine in trouble': { status: 500, message: 'input/output error' },
};

/** A life on the happy path has so many calls: those of prestart, start, stop and destroy. */
const CALLS = 2 + 3 + 3 + 1;

/** One life, as far as it gets. */
async function live(b: Bench): Promise<{ readonly prepared?: DockerPrepared; readonly handle?: TaskHandle }> {
  let prepared: DockerPrepared | undefined;
  let handle: TaskHandle | undefined;
  try {
    prepared = await b.driver.prestart(b.ask('a'));
    handle = await b.driver.start(prepared, {});
    await handle.disarm?.({});
    await handle.signal('SIGTERM', {});
    await handle.wait({});
    await handle.destroy();
  } catch (error) {
    expect(error).toMatchObject({ code: expect.stringMatching(/^ERR_(DRIVER|START_FAILED|NAME_TAKEN)$/) as unknown });
  }
  return { ...(prepared && { prepared }), ...(handle && { handle }) };
}

/** What whoever embeds it does after a failure: undoes what it has. */
async function undo({ prepared, handle }: Awaited<ReturnType<typeof live>>): Promise<void> {
  if (handle === undefined) return prepared?.discard();
  await handle.kill({});
  await handle.wait({});
  await handle.destroy();
}

/** What the next process does that knows of nothing: it clears away what it finds by label. */
async function sweep(b: Bench): Promise<void> {
  const driver = b.again();
  for (const { state, allocId } of await driver.list({})) {
    const found = await driver.recover(state, { owner: `${allocId}/web` });
    await found?.kill({});
    await found?.wait({});
    await found?.destroy();
  }
}

describe.each(Object.entries(FAULTS))('a call that %s', (_, fault) => {
  it.each(Array.from({ length: CALLS }, (_, nth) => nth))(
    'G-8 DP-1 as number %i of a life: all settles, nothing is left',
    async (nth) => {
      const b = await bench();
      b.engine.fault({ path: /^\/containers/, after: nth }, fault);
      const life = await moving(b, live(b));
      await moving(b, undo(life));
      await b.clock.advance('20m');
      expect([b.engine.containers.map(({ name, state }) => [name, state]), b.leases.held]).toEqual([[], new Set()]);
    },
  );

  it.each(Array.from({ length: CALLS }, (_, nth) => nth))(
    'DP-2 as number %i of a life that then is cut: the next process finds all',
    async (nth) => {
      const b = await bench();
      b.engine.fault({ path: /^\/containers/, after: nth }, fault);
      await moving(b, live(b));
      await moving(b, sweep(b));
      expect(b.engine.containers).toEqual([]);
    },
  );
});

describe('an engine that is away for a while', () => {
  it.each(Array.from({ length: CALLS }, (_, nth) => nth))(
    'G-8 from call number %i of a life on: all settles, nothing is left',
    async (nth) => {
      const b = await bench();
      const downAt = b.engine.called(/ \/containers/, nth + 1).then(() => b.engine.down());
      const life = moving(b, live(b));
      await downAt;
      await b.engine.up();
      await moving(b, undo(await life));
      await b.clock.advance('20m');
      expect([b.engine.containers.map(({ name, state }) => [name, state]), b.leases.held]).toEqual([[], new Set()]);
    },
  );
});

it('a life has as many calls as are tried', async () => {
  const b = await bench();
  await live(b);
  expect(b.calls()).toHaveLength(CALLS);
});
