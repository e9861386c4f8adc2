import type { DockerState } from 'handover/docker';
import { expect, it } from 'vitest';
import { type Bench, bench, failure } from './driver-bench.js';

/** A task that ran and was destroyed, after which the tag has moved on. */
async function moved(b: Bench): Promise<DockerState> {
  const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
  await handle.kill({});
  await handle.wait({});
  await handle.destroy();
  b.engine.publish('app:v1', { content: 'v2' });
  b.calls();
  return handle.state;
}

const pulls = (b: Bench): number => b.engine.calls.filter((call) => call.includes('/images/create')).length;

it('DP-2 with content the container is made from that very image, and no registry is asked', async () => {
  const b = await bench();
  const state = await moved(b);
  const before = pulls(b);
  const prepared = await b.driver.prestart(b.ask('b', { pull: 'always' }, { content: state }));
  expect([prepared.imageId, b.engine.containers[0]?.image.id]).toEqual([state.imageId, state.imageId]);
  expect([pulls(b), [...b.leases.held]]).toEqual([before, ['b/web app:v1']]);
});

it('DP-2 content that is gone is ERR_IMAGE_ABSENT, and nothing is made', async () => {
  const b = await bench();
  const state = { ...(await moved(b)), imageId: `sha256:${'0'.repeat(64)}` };
  const error = await failure(b.driver.prestart(b.ask('b', {}, { content: state })));
  expect(error).toMatchObject({ code: 'ERR_IMAGE_ABSENT', details: { reference: 'app:v1' } });
  expect(error.message).toContain(state.imageId);
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('DP-2 a leftover of the same spec that is made from other content is no leftover to adopt', async () => {
  const b = await bench();
  const state = await moved(b);
  const other = await b.driver.prestart(b.ask('b', { pull: 'always' }));
  expect(other.imageId).not.toBe(state.imageId);
  const prepared = await b.again().prestart(b.ask('b', {}, { content: state }));
  expect(b.engine.containers.map(({ id, image }) => [id, image.id])).toEqual([[prepared.containerId, state.imageId]]);
});

it('DP-2 a leftover of the same spec and content is adopted', async () => {
  const b = await bench();
  const { containerId, imageId, reference } = await b.driver.prestart(b.ask('b'));
  const adopted = await b.again().prestart(b.ask('b', {}, { content: { containerId, imageId, reference } }));
  expect(adopted.containerId).toBe(containerId);
});

it.each([null, {}, 'app:v1', { containerId: 'a', imageId: '', reference: 'x' }])(
  'G-2 %j is no content',
  async (content) => {
    const b = await bench();
    const error = await failure(b.driver.prestart(b.ask('b', {}, { content })));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION' });
    expect((error.details as { path: string }).path).toMatch(/^content/);
    expect(b.calls()).toEqual([]);
  },
);
