import { describe, expect, it } from 'vitest';
import { afterCall, bench, type Bench, failure } from './driver-bench.js';

const CREATE = { method: 'POST', path: /^\/containers\/create/ } as const;
const LOOKED_AT = /^\/containers\/[0-9a-f]{64}\/json/;
const LOOK = /GET \/containers\/a-web-[0-9a-f]{8}\/json/;

/** A prestart whose two creates hang beyond their deadlines; nothing has landed when it rejects. */
async function givenUp(): Promise<Bench> {
  const b = await bench();
  b.engine.fault({ ...CREATE, times: 2 }, { silence: 'request' });
  const failed = failure(b.driver.prestart(b.ask('a')));
  await afterCall(b, /containers\/create/, '60s');
  await afterCall(b, /containers\/create/, '60s', 2);
  expect(await failed).toMatchObject({ code: 'ERR_DRIVER', details: { kind: 'late' } });
  return b;
}

/** What the hung create makes at last. */
function land(b: Bench): void {
  const name = b.engine.calls.flatMap((call) => /create\?name=(a-web-[0-9a-f]{8})/.exec(call)?.[1] ?? [])[0]!;
  const Labels = { 'handover.alloc': 'a', 'handover.task': 'web', 'handover.hash': 'hash-1' };
  b.engine.create(name, { Image: 'app:v1', Labels });
}

const looks = (b: Bench): number => b.engine.calls.filter((call) => LOOK.test(call)).length;

/** Moves time on, look by look. */
async function until(b: Bench, there: () => boolean): Promise<void> {
  while (!there()) await b.clock.advance(500);
}

/** Until it is looked for no more. */
const ended = (b: Bench): Promise<void> => until(b, () => b.clock.pending === 0);

describe('DP-1 a create that was given up', () => {
  it('is told, looked for by the clock, and removed when it lands after all', async () => {
    const b = await givenUp();
    expect([b.warnings, b.leases.held, looks(b)]).toEqual([['create-unknown'], new Set(), 1]);
    await until(b, () => looks(b) === 3);
    land(b);
    await ended(b);
    expect(b.engine.containers).toEqual([]);
  });

  it('is looked for again when a look fails', async () => {
    const b = await givenUp();
    land(b);
    b.engine.fault({ method: 'DELETE', path: /^\/containers\// }, { status: 400, message: 'not now' });
    await ended(b);
    expect(b.engine.containers).toEqual([]);
  });

  it('is not waited for for ever', async () => {
    const b = await givenUp();
    const from = b.clock.now();
    await ended(b);
    expect((b.clock.now() - from) / 60_000).toSatisfy((minutes: number) => minutes >= 15 && minutes < 17);
    expect(looks(b)).toBeLessThan(50);
    expect(b.warnings).toEqual(['create-unknown']);
  });

  it('is the next prestart’s, when that one prepares the same', async () => {
    const b = await givenUp();
    const { containerId } = await b.driver.prestart(b.ask('a'));
    expect(b.clock.pending).toBe(0);
    await b.clock.advance('1h');
    expect(b.engine.containers.map(({ id }) => id)).toEqual([containerId]);
  });

  it('is looked for again after a next prestart that came to no create', async () => {
    const b = await givenUp();
    b.engine.fault({ path: /^\/images\/[^/]+\/json/, times: 2 }, { status: 500, message: 'no' });
    b.engine.fault({ path: /^\/images\/create/ }, { status: 500, message: 'no' });
    await failure(b.driver.prestart(b.ask('a')));
    land(b);
    await ended(b);
    expect(b.engine.containers).toEqual([]);
  });

  it('is not looked for again once the next prestart has adopted what landed, and then failed', async () => {
    const b = await givenUp();
    land(b);
    b.engine.fault({ path: LOOKED_AT }, { status: 400, message: 'no' });
    expect(await failure(b.driver.prestart(b.ask('a')))).toMatchObject({ details: { status: 400 } });
    expect(b.engine.containers).toEqual([]);
    expect([b.warnings, b.clock.pending]).toEqual([['create-unknown'], 0]);
  });

  it('does not hold up another spec, and does not touch its container', async () => {
    const b = await givenUp();
    const { containerId } = await b.driver.prestart(b.ask('a', {}, { specHash: 'hash-2' }));
    land(b);
    await ended(b);
    expect(b.engine.containers.map(({ id }) => id)).toEqual([containerId]);
  });

  it('stays when somebody has started it', async () => {
    const b = await givenUp();
    land(b);
    b.engine.startContainer(b.engine.containers[0]!.id);
    await ended(b);
    expect(b.engine.running()).toHaveLength(1);
    expect(b.engine.calls.some((call) => call.startsWith('DELETE'))).toBe(false);
  });
});
