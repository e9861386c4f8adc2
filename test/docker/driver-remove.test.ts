import { expect, it } from 'vitest';
import { afterCall, bench, failure, moving } from './driver-bench.js';

const REMOVE = { method: 'DELETE', path: /^\/containers\// } as const;

it('case C34 somebody else is removing it: waited for until it is gone', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.containers[0]!.state = 'removing';
  const discard = prepared.discard();
  await afterCall(b, /GET \/containers\/[^/]+\/json/, 0, 1);
  b.engine.remove(prepared.containerId);
  await moving(b, discard);
  expect(b.leases.held).toEqual(new Set());
});

it('case C34 that wait is bounded, and the image stays leased', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.containers[0]!.state = 'removing';
  const error = await failure(moving(b, prepared.discard()));
  expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { status: 409 } });
  expect(b.leases.held.size).toBe(1);
  b.engine.containers[0]!.state = 'exited';
  await prepared.discard();
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it.each([{ lose: 'answer' }, { lose: 'request' }, { status: 500, message: 'device or resource busy' }] as const)(
  'G-8 %j is tried again',
  async (fault) => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a'));
    b.engine.fault(REMOVE, fault);
    await moving(b, prepared.discard());
    expect(b.engine.containers).toEqual([]);
  },
);

it('destroy refuses what runs, and keeps its image', async () => {
  const b = await bench();
  const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
  expect(await failure(handle.destroy())).toMatchObject({ code: 'ERR_DRIVER', details: { status: 409 } });
  expect([b.engine.running().length, b.leases.held.size]).toEqual([1, 1]);
});
