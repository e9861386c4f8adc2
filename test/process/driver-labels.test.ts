import { expect, it } from 'vitest';
import { useStage } from './stage.js';
import { context, shell } from './tasks.js';

const stage = useStage();
const LABELS = { 'handover.stop': '{}', shift: 'night' };

it('DP-8 list() tells the labels of the prestart, to another process too, before and after the start', async () => {
  const prepared = await stage.driver.prestart(context(shell('exec sleep 60'), { labels: LABELS }));
  expect(await stage.host.driver().list({})).toMatchObject([{ started: false, labels: LABELS }]);
  await stage.mind(await stage.driver.start(prepared, {}));
  expect((await stage.host.driver().list({}))[0]?.labels).toEqual(LABELS);
});

it('DP-8 without any it tells none', async () => {
  await stage.driver.prestart(context(shell('true')));
  expect((await stage.driver.list({}))[0]?.labels).toEqual({});
});

it('DP-2 who takes a leftover over has labels of its own', async () => {
  await stage.driver.prestart(context(shell('true'), { labels: LABELS }));
  const driver = stage.host.driver();
  await driver.prestart(context(shell('true'), { labels: { shift: 'day' } }));
  expect((await driver.list({}))[0]?.labels).toEqual({ shift: 'day' });
});

it('DP-2 with content the task gets what that task had, though its reference has moved on', async () => {
  const url = stage.host.origin.content('/app', 'old');
  const spec = shell('cat app; exec sleep 60', { artifact: url });
  const first = await stage.mind(await stage.driver.start(await stage.driver.prestart(context(spec)), {}));
  stage.host.origin.content('/app', 'new');
  const { length } = stage.host.origin.requests;
  const content = first.state;
  const ctx = context(spec, { allocId: 'web-2', content });
  const again = await stage.mind(await stage.driver.start(await stage.driver.prestart(ctx), {}));
  expect(again.state).toMatchObject({ reference: url, artifactId: content.artifactId });
  expect(stage.host.origin.requests).toHaveLength(length);
});

it('DP-2 content that is gone is ERR_IMAGE_ABSENT, and nothing is left', async () => {
  const url = stage.host.origin.content('/app', 'old');
  const content = { pid: 0, startedAt: 0, directory: '/x', reference: url, artifactId: `sha256:${'0'.repeat(64)}` };
  const prestart = stage.driver.prestart(context(shell('true', { artifact: url }), { content }));
  await expect(prestart).rejects.toMatchObject({ code: 'ERR_IMAGE_ABSENT', details: { reference: url } });
  expect(await stage.driver.list({})).toEqual([]);
});

it('DP-2 a leftover that is made from other content is no leftover to take over', async () => {
  const url = stage.host.origin.content('/app', 'old');
  const spec = shell('true', { artifact: url });
  const first = await stage.driver.prestart(context(spec));
  const [old] = await stage.driver.list({});
  stage.host.origin.content('/app', 'new');
  await first.discard();
  const driver = stage.host.driver();
  await driver.prestart(context(spec, { allocId: 'keeps', content: undefined }));
  const again = stage.host.driver().prestart(context(spec, { allocId: 'keeps', content: old?.state }));
  await expect(again).rejects.toMatchObject({ code: 'ERR_IMAGE_ABSENT' });
});

it('DP-2 the state of a task without content asks for none', async () => {
  const content = { pid: 0, startedAt: 0, directory: '/x' };
  const prepared = await stage.driver.prestart(context(shell('true'), { content }));
  expect(await prepared.intact({})).toBe(true);
});

it.each([null, 5, {}, { pid: 0, startedAt: 0, directory: '' }])('G-2 %j is no content', async (content) => {
  await expect(stage.driver.prestart(context(shell('true'), { content }))).rejects.toMatchObject({
    code: 'ERR_INVALID_OPTION',
  });
  expect(await stage.driver.list({})).toEqual([]);
});
