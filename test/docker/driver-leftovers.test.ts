import { DockerDriver } from 'handover/docker';
import { expect, it } from 'vitest';
import { bench, failure } from './driver-bench.js';

const LIST = 'GET /containers/json?all=1&filters={"label":["handover.alloc=a","handover.task=web"]}';

it('S45 the same spec adopts what an earlier process created, and asks no registry', async () => {
  const b = await bench();
  const { containerId } = await b.driver.prestart(b.ask('a'));
  const before = b.engine.calls.length;
  const adopted = await b.again().prestart(b.ask('a', { pull: 'always' }));
  expect(adopted.containerId).toBe(containerId);
  expect(b.engine.calls.slice(before).some((call) => call.includes('/images/create'))).toBe(false);
});

it('S45 another spec removes it first', async () => {
  const b = await bench();
  const { containerId } = await b.driver.prestart(b.ask('a'));
  b.calls();
  const next = await b.again().prestart(b.ask('a', {}, { specHash: 'hash-2' }));
  expect(next.containerId).not.toBe(containerId);
  expect(b.calls().slice(0, 3)).toEqual([
    LIST,
    'DELETE /containers/a?v=1&force=0',
    expect.stringMatching(/^POST \/containers\/create/),
  ]);
  expect(b.engine.containers).toHaveLength(1);
});

it.each(['running', 'paused', 'restarting'] as const)(
  'a %s one is not a leftover: refused, untouched',
  async (state) => {
    const b = await bench();
    await b.driver.prestart(b.ask('a'));
    b.engine.containers[0]!.state = state;
    const error = await failure(b.again().prestart(b.ask('a')));
    expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { operation: 'prestart', owner: 'a/web' } });
    expect(b.engine.containers.map((c) => c.state)).toEqual([state]);
  },
);

it('S72 a dead one is removed, not adopted', async () => {
  const b = await bench();
  const { containerId } = await b.driver.prestart(b.ask('a'));
  b.engine.containers[0]!.state = 'dead';
  const next = await b.again().prestart(b.ask('a'));
  expect(next.containerId).not.toBe(containerId);
  expect(b.engine.containers).toHaveLength(1);
});

it('one whose image was deleted by force is replaced', async () => {
  const b = await bench();
  const { containerId } = await b.driver.prestart(b.ask('a'));
  b.engine.loseImage('app:v1');
  const next = await b.again().prestart(b.ask('a'));
  expect(next.containerId).not.toBe(containerId);
  expect(b.engine.containers).toHaveLength(1);
});

it('a container of another alloc is no leftover', async () => {
  const b = await bench();
  await b.driver.prestart(b.ask('a'));
  await b.driver.prestart(b.ask('b'));
  expect(await b.driver.list({})).toMatchObject([
    { allocId: 'a', task: 'web', specHash: 'hash-1', started: false, state: { reference: 'app:v1' } },
    { allocId: 'b', task: 'web', specHash: 'hash-1', started: false },
  ]);
});

it('DP-2 labels name no maker: a driver of another name lists and adopts what this one has prepared', async () => {
  const { driver, docker, leases, ask, clock } = await bench();
  const { containerId } = await driver.prestart(ask('a'));
  const other = new DockerDriver({ docker, images: leases, name: 'other' }, { clock });
  expect(await other.list({})).toMatchObject([{ allocId: 'a', state: { containerId } }]);
  expect((await other.prestart(ask('a'))).containerId).toBe(containerId);
});
