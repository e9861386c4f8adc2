import { expect, it } from 'vitest';
import { bench, type Bench, failure } from './driver-bench.js';

const CREATE = { method: 'POST', path: /^\/containers\/create/ } as const;
const REMOVE = { method: 'DELETE', path: /^\/containers\// } as const;

/** A prestart that was called off, and whose container could not be removed. */
async function undone(): Promise<Bench> {
  const b = await bench();
  const controller = new AbortController();
  b.engine.fault(CREATE, { delay: 20 });
  b.engine.fault(REMOVE, { status: 400, message: 'not now' });
  const failed = failure(b.driver.prestart(b.ask('a', {}, { signal: controller.signal })));
  await b.engine.called(/containers\/create/);
  controller.abort(new Error('called off'));
  await failed;
  expect(b.engine.containers).toHaveLength(1);
  return b;
}

it('DP-1 the next prestart of the owner waits for the undo, and does not adopt what it takes away', async () => {
  const b = await undone();
  const [first] = b.engine.containers;
  b.engine.fault(REMOVE, { delay: 20 });
  const prepared = await b.driver.prestart(b.ask('a'));
  await b.engine.idle();
  expect(prepared.containerId).not.toBe(first!.id);
  expect(await prepared.intact({})).toBe(true);
});

it('DP-1 an undo that fails again fails the prestart of that owner with its cause, and is kept', async () => {
  const b = await undone();
  b.engine.fault(REMOVE, { status: 400, message: 'still not' });
  expect((await failure(b.driver.prestart(b.ask('a')))).message).toContain('still not');
  expect(b.warnings).toEqual(['undo-failed', 'undo-failed']);
  await b.driver.prestart(b.ask('a'));
  expect(b.engine.containers).toHaveLength(1);
});

it('DP-1 the undo of another owner holds up nobody', async () => {
  const b = await undone();
  b.engine.fault(REMOVE, { silence: 'request' });
  await b.driver.prestart(b.ask('b'));
  expect(b.engine.containers).toHaveLength(2);
});
