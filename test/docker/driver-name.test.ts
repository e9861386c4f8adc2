import { expect, it } from 'vitest';
import { bench, failure } from './driver-bench.js';

const named = { name: 'web' };

it('DP-7 a name is taken at the start, from our own container that has ended', async () => {
  const b = await bench();
  const a = await b.driver.start(await b.driver.prestart(b.ask('a', named)), {});
  const next = await b.driver.prestart(b.ask('b', named));
  await a.kill({});
  b.calls();
  await b.driver.start(next, {});
  expect(b.calls().slice(0, 5)).toEqual([
    'POST /containers/b/rename?name=web',
    'GET /containers/web/json',
    expect.stringMatching(/^POST \/containers\/a\/rename\?name=a-web-[0-9a-f]{8}$/),
    'POST /containers/b/rename?name=web',
    'POST /containers/b/wait?condition=next-exit',
  ]);
  expect(b.engine.running()).toEqual(['web']);
});

it('DP-7 while our own holder runs, the start is refused and nothing is lost', async () => {
  const b = await bench();
  await b.driver.start(await b.driver.prestart(b.ask('a', named)), {});
  const next = await b.driver.prestart(b.ask('b', named));
  const error = await failure(b.driver.start(next, {}));
  expect(error).toMatchObject({ code: 'ERR_NAME_TAKEN', details: { name: 'web', by: 'a/web' } });
  expect(b.engine.running()).toEqual(['web']);
  expect(await next.intact({})).toBe(true);
});

it('S46 a stranger that has the name is told before anything is made', async () => {
  const b = await bench();
  b.engine.put('other:v1');
  const stranger = b.engine.create('web', { Image: 'other:v1' });
  const error = await failure(b.driver.prestart(b.ask('a', named)));
  const by = stranger.id.slice(0, 12);
  expect(error).toMatchObject({ code: 'ERR_NAME_TAKEN', details: { name: 'web', by } });
  const advice = 'remove or rename it, or choose another name';
  expect(error.message).toBe(`The name web is held by container ${by}: ${advice}`);
  expect([b.engine.containers, b.leases.held]).toEqual([[stranger], new Set()]);
});

it('S46 a stranger that comes later is told at the start', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a', named));
  b.engine.create('web', { Image: 'app:v1' });
  expect(await failure(b.driver.start(prepared, {}))).toMatchObject({ code: 'ERR_NAME_TAKEN' });
  await prepared.discard();
  expect(b.engine.containers.map((c) => c.name)).toEqual(['web']);
});

it('DP-7 a holder that went away meanwhile is no holder', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a', named));
  const message = 'Conflict. The container name "/web" is already in use by container "136a920587be"';
  b.engine.fault({ path: /\/rename/ }, { status: 409, message });
  await b.driver.start(prepared, {});
  expect(b.engine.running()).toEqual(['web']);
});

it('a start that is repeated finds that it has the name', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a', named));
  b.engine.fault({ path: /\/start/ }, { status: 500, message: 'OCI runtime create failed: no such file' });
  await failure(b.driver.start(prepared, {}));
  expect(await (await b.driver.start(prepared, {})).isRunning({})).toBe(true);
});

it('case C42 names are ones that the engine takes, and unique to alloc, task and spec', async () => {
  const b = await bench();
  const allocs = ['web/1', 'web-1', 'web 1', '*', '**', '-é'];
  for (const alloc of allocs) await b.driver.prestart(b.ask(alloc));
  expect(b.engine.containers.map((c) => c.labels['handover.alloc'])).toEqual(allocs);
  const names = b.engine.containers.map((c) => c.name);
  expect(names).toEqual(['web-1-web', 'web-1-web', 'web-1-web', 'web', 'web', 'web'].map(withHash));
});

function withHash(readable: string): unknown {
  return expect.stringMatching(new RegExp(`^${readable}-[0-9a-f]{8}$`));
}
