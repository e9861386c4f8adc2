import { expect, it } from 'vitest';
import { ownedBy } from '../../src/docker/driver-labels.js';
import { bench, failure } from './driver-bench.js';

const STOP = { 'handover.stop': '{"signal":"SIGINT"}', shift: 'night' };

it('DP-8 the labels of a prestart are on the container, and list() tells them from those of the spec', async () => {
  const b = await bench();
  await b.driver.prestart(b.ask('a', { labels: { team: 'blue' } }, { labels: STOP }));
  expect(b.engine.containers[0]?.labels).toMatchObject({ ...STOP, team: 'blue' });
  expect(await b.again().list({})).toMatchObject([{ allocId: 'a', labels: STOP }]);
  expect((await b.again().list({}))[0]?.labels).toEqual(STOP);
});

it('DP-8 without any, list() tells none', async () => {
  const b = await bench();
  await b.driver.prestart(b.ask('a', { labels: { team: 'blue' } }));
  expect((await b.driver.list({}))[0]?.labels).toEqual({});
});

it('DP-8 a label of the prestart wins over one of the spec', async () => {
  const b = await bench();
  await b.driver.prestart(b.ask('a', { labels: { shift: 'day' } }, { labels: STOP }));
  expect(b.engine.containers[0]?.labels).toMatchObject(STOP);
});

it.each(['handover.alloc', 'handover.task', 'handover.hash', 'handover.image', 'handover.ports', 'handover.labels'])(
  'G-2 the label %s is the driver’s own: refused before anything is made',
  async (label) => {
    const b = await bench();
    const error = await failure(b.driver.prestart(b.ask('a', {}, { labels: { [label]: 'x' } })));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: `labels.${label}` } });
    expect([b.calls(), b.leases.held]).toEqual([[], new Set()]);
  },
);

it.each([
  [{}, {}],
  [{ 'handover.labels': '["b","c"]' }, { b: '1' }],
  [{ 'handover.labels': '"b"' }, {}],
  [{ 'handover.labels': '{"b":1}' }, {}],
  [{ 'handover.labels': '[' }, {}],
])('labels written by hand, %j, are read as %j', (labels, given) => {
  expect(ownedBy({ 'handover.alloc': 'a', b: '1', ...labels })?.labels).toEqual(given);
});

it.each([
  ['{"a":"80/tcp","b":80}', { a: '80/tcp' }],
  ['null', {}],
  ['"80"', {}],
  ['{', {}],
])('ports written by hand, %s, are read as %j', (ports, read) => {
  expect(ownedBy({ 'handover.alloc': 'a', 'handover.ports': ports })?.ports).toEqual(read);
});
