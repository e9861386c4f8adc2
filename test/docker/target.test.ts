import { dockerTarget } from 'handover/docker';
import { expect, it } from 'vitest';
import { bench } from './driver-bench.js';
import { stranger } from './target-bench.js';

it('a name means the container that had it first, not the one that has it now', async () => {
  const { engine, docker, target } = await stranger();
  expect(await target.isRunning({})).toBe(true);
  await docker.getContainer('db').rename({ name: 'db-old' });
  engine.create('db', { Image: 'db:v1' });
  engine.startContainer('db');
  await target.signal('SIGTERM', {});
  await target.wait({});
  expect(engine.running()).toEqual(['db']);
});

it.each(['exited', 'dead', 'removing', 'created'] as const)('S72 one that is %s counts as stopped', async (state) => {
  const { engine, target } = await stranger();
  engine.containers[0]!.state = state;
  await target.signal('SIGTERM', {});
  expect(await target.isRunning({})).toBe(false);
  await target.wait({});
});

it('S72 one with --rm is gone after its exit', async () => {
  const { engine, target } = await stranger({ AutoRemove: true });
  await target.disarm!({});
  const wait = target.wait({});
  await engine.called(/condition=not-running/);
  await target.signal('SIGTERM', {});
  expect(await wait).toMatchObject({ code: 0, by: 'signal' });
  expect(engine.containers).toEqual([]);
});

it('S70 the stop signal is known once it was looked at', async () => {
  const { target } = await stranger({}, { stopSignal: 'SIGINT' });
  expect(target.stopSignal).toBeUndefined();
  await target.isRunning({});
  expect(target.stopSignal).toBe('SIGINT');
});

it.each([
  ['db', { keep: true }, 'keep'],
  ['', {}, 'idOrName'],
  [null, {}, 'idOrName'],
  ['db', null, '(options)'],
  ['db', [], '(options)'],
] as const)('G-2 dockerTarget(docker, %j, %j) is refused by the path %s', async (idOrName, options, path) => {
  const { docker } = await bench();
  expect(() => dockerTarget(docker, idOrName as never, options as never)).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
  );
});
