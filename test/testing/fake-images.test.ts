import { describe, expect, it } from 'vitest';
import { HandoverError, type Progress } from 'handover';
import { FakeClock, FakeHost } from 'handover/testing';

const HEX = 'a'.repeat(64);

function registry() {
  const clock = new FakeClock();
  const images = new FakeHost({ clock }).images();
  const progress: Omit<Progress, 'attempt'>[] = [];
  const fetch = (reference: string, more: { signal?: AbortSignal; platform?: string } = {}) =>
    images.fetch(reference, { onProgress: (p) => progress.push(p), ...more });
  return { clock, images, fetch, progress };
}

describe('references', () => {
  it.each([
    ['app', { key: 'app:latest', repository: 'app', pullable: true, floating: true, latest: true }],
    ['app:latest', { key: 'app:latest', repository: 'app', pullable: true, floating: true, latest: true }],
    ['team/app:v1', { key: 'team/app:v1', repository: 'team/app', pullable: true, floating: true, latest: false }],
    [
      `app@sha256:${HEX}`,
      { key: `app@sha256:${HEX}`, repository: 'app', pullable: true, floating: false, latest: false },
    ],
    [`sha256:${HEX}`, { key: `sha256:${HEX}`, pullable: false, floating: false, latest: false }],
  ])('IC-13 %s', (reference, expected) => {
    expect(registry().images.normalise(reference)).toMatchObject({ ...expected, host: 'fake' });
  });

  it.each(['', 'App', 'app:', 'app@sha256:1', 'https://app', ':v1', 'app:v1:v2'])(
    'IC-13 %j is refused',
    (reference) => {
      expect(() => registry().images.normalise(reference)).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_REFERENCE', details: { reference } }),
      );
    },
  );
});

describe('fetch and find', () => {
  it('IC-11 what was published is absent until it was fetched', async () => {
    const { clock, images, fetch, progress } = registry();
    images.put('app:v1', { bytes: 5 });
    images.delay = '2s';
    expect(await images.find('app:v1', {})).toBeUndefined();
    await clock.until(fetch('app:v1'));
    const found = await images.find('app:v1', {});
    expect(found?.references).toEqual(['app:v1', `app@${found!.digest!}`]);
    expect(await images.find(found!.id, {})).toEqual(found);
    expect(await images.list({})).toEqual([found]);
    expect(progress.map(({ phase, bytes }) => [phase, bytes.done])).toEqual([
      ['downloading', 0],
      ['done', 5],
    ]);
    expect([clock.now(), images.fetched]).toEqual([2_000, ['app:v1']]);
  });

  it('IC-16 a tag that moved names the new content, and the old one keeps its digest', async () => {
    const { images, fetch } = registry();
    images.put('app:v1');
    await fetch('app:v1');
    const old = await images.find('app:v1', {});
    images.put('app:v1');
    expect(await images.find('app:v1', {})).toEqual(old);
    await fetch('app:v1');
    expect((await images.find('app:v1', {}))?.id).not.toBe(old?.id);
    expect((await images.find(old!.id, {}))?.references).toEqual([`app@${old!.digest!}`]);
    await fetch(`app@${old!.digest!}`);
    expect((await images.find(`app@${old!.digest!}`, {}))?.id).toBe(old?.id);
  });

  it('IC-10 unknown, wrong platform, scripted failure, and well again after the next put', async () => {
    const { images, fetch } = registry();
    await expect(fetch('app:v9')).rejects.toMatchObject({ details: { reason: 'not-found-or-denied' } });
    images.put('app:v1', { platform: 'linux/arm64' });
    await expect(fetch('app:v1', { platform: 'linux/amd64' })).rejects.toMatchObject({
      details: { reason: 'no-platform' },
    });
    const down = new HandoverError('ERR_PULL_FAILED', 'down', {
      details: { reference: 'app:v1', reason: 'registry-unavailable', attempts: 1 },
      retryable: true,
    });
    images.fail('app:v1', down);
    await expect(fetch('app:v1')).rejects.toBe(down);
    expect(await images.list({})).toEqual([]);
    images.put('app:v1', { platform: 'linux/amd64' });
    await fetch('app:v1', { platform: 'linux/amd64' });
    expect(await images.find('app:v1', { platform: 'linux/arm64' })).toBeUndefined();
    expect(await images.find('app:v1', { platform: 'linux/amd64' })).toBeDefined();
  });

  it('IC-23 an id is looked up but never fetched', async () => {
    const { images, fetch } = registry();
    await expect(fetch(`sha256:${HEX}`)).rejects.toMatchObject({ code: 'ERR_INVALID_REFERENCE' });
    expect(images.fetched).toEqual([]);
  });

  it('G-4 an aborted fetch rejects with the reason and stores nothing', async () => {
    const { clock, images, fetch } = registry();
    images.put('app:v1');
    images.delay = 'never';
    const abort = new AbortController();
    const fetching = fetch('app:v1', { signal: abort.signal });
    await clock.advance('1h');
    abort.abort(new Error('enough'));
    await expect(fetching).rejects.toThrow('enough');
    expect([await images.list({}), clock.pending]).toEqual([[], 0]);
  });
});

describe('remove', () => {
  it('IC-17 takes away a name; the last tag takes the content along', async () => {
    const { images, fetch } = registry();
    const digest = `sha256:${HEX}`;
    images.put('app:v1', { id: 'one', digest });
    images.put('app:v2', { id: 'one', digest });
    await fetch('app:v1');
    await fetch('app:v2');
    expect(await images.remove('app:v1', {})).toBe('untagged');
    expect((await images.find('one', {}))?.references).toEqual([`app@${digest}`, 'app:v2']);
    expect(await images.remove(`app@${digest}`, {})).toBe('untagged');
    expect(await images.remove('app:v2', {})).toBe('removed');
    expect(await images.remove('app:v2', {})).toBe('absent');
    expect(await images.list({})).toEqual([]);
  });

  it('IC-17 the last tag of one repository leaves the content to the others', async () => {
    const { images, fetch } = registry();
    const digest = `sha256:${HEX}`;
    images.put('app:v1', { id: 'one', digest });
    images.put('copy:v1', { id: 'one', digest });
    await fetch('app:v1');
    await fetch('copy:v1');
    expect(await images.remove('app:v1', {})).toBe('untagged');
    expect((await images.find('one', {}))?.references).toEqual(['copy:v1', `copy@${digest}`]);
    expect(await images.remove('copy:v1', {})).toBe('removed');
  });

  it('removes by id, whatever it is called', async () => {
    const { images, fetch } = registry();
    images.put('app:v1');
    images.put('app:v2', { id: 'two' });
    await fetch('app:v1');
    await fetch('app:v2');
    const { id } = (await images.find('app:v1', {}))!;
    expect(await images.remove(id, {})).toBe('removed');
    expect(await images.remove('two', {})).toBe('removed');
    expect(await images.list({})).toEqual([]);
  });
});
