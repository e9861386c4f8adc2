import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PullProgress } from '../../src/docker/pull-progress.js';

const layer = (id: string, status: string, current?: number, total?: number): Record<string, unknown> => ({
  status,
  id,
  progressDetail: current === undefined ? {} : { current, total },
});

function readAll(...lines: readonly Record<string, unknown>[]): PullProgress['now'] {
  const progress = new PullProgress();
  for (const line of lines) progress.read(line);
  return progress.now;
}

describe('IC-12 one aggregate of all layers', () => {
  it('case C7 tells the last line', () => {
    expect(readAll({ status: 'Pulling from library/redis' })).toMatchObject({ note: 'Pulling from library/redis' });
    const note = '506c40f60539: Layer already being pulled by another client. Waiting.';
    expect(readAll(layer('506c40f60539', 'Layer already being pulled by another client. Waiting.'), {})).toMatchObject({
      phase: 'downloading',
      note,
    });
    expect(readAll({})).not.toHaveProperty('note');
  });

  it('follows a whole pull', () => {
    const progress = new PullProgress();
    const seen = [
      { status: 'Pulling from library/redis', id: '7' },
      layer('a', 'Already exists'),
      layer('b', 'Pulling fs layer'),
      layer('c', 'Pulling fs layer'),
      layer('c', 'Waiting'),
      layer('b', 'Downloading', 10, 100),
      layer('c', 'Downloading', 5, 50),
      layer('b', 'Verifying Checksum'),
      layer('b', 'Download complete'),
      layer('c', 'Download complete'),
      layer('b', 'Extracting', 1, 100),
      layer('b', 'Pull complete'),
      layer('c', 'Extracting', 50, 50),
      layer('c', 'Pull complete'),
      { status: 'Digest: sha256:abc' },
      { status: 'Status: Downloaded newer image for redis:7' },
    ].map((line) => {
      progress.read(line);
      const { phase, bytes, layers } = progress.now;
      return `${phase} ${bytes.done}/${bytes.total ?? '?'} ${layers?.done ?? '-'}/${layers?.total ?? '-'}`;
    });
    expect(seen).toEqual([
      'resolving 0/? -/-',
      'extracting 0/? 1/1',
      'downloading 0/? 1/2',
      'downloading 0/? 1/3',
      'downloading 0/? 1/3',
      'downloading 10/? 1/3',
      'downloading 15/150 1/3',
      'downloading 15/150 1/3',
      'downloading 105/150 1/3',
      'extracting 150/150 1/3',
      'extracting 150/150 1/3',
      'extracting 150/150 2/3',
      'extracting 150/150 2/3',
      'extracting 150/150 3/3',
      'extracting 150/150 3/3',
      'extracting 150/150 3/3',
    ]);
  });

  it.each([
    { lines: [layer('a', 'Pulling fs layer')], phase: 'downloading', why: 'it waits for the network' },
    {
      lines: [layer('a', 'Layer already being pulled by another client. Waiting.')],
      phase: 'downloading',
      why: 'case C7: the other pull may hang',
    },
    {
      lines: [layer('a', 'Downloading', 1, 9), layer('a', 'Retrying in 5 seconds')],
      phase: 'downloading',
      why: 'it waits for the network',
    },
    {
      lines: [layer('a', 'Downloading', 9, 9), layer('a', 'Verifying Checksum')],
      phase: 'extracting',
      why: 'S20: the engine works',
    },
    {
      lines: [layer('a', 'Verifying Checksum'), layer('b', 'Waiting')],
      phase: 'extracting',
      why: 'S20: the layer behind it waits for the engine',
    },
    {
      lines: [layer('a', 'Verifying Checksum'), layer('b', 'Downloading', 1, 9)],
      phase: 'downloading',
      why: 'another one is coming in',
    },
    { lines: [layer('a', 'Extracting', 1, 9)], phase: 'extracting', why: 'S20: the engine works' },
    {
      lines: [layer('a', 'Extracting', 1, 9), layer('b', 'Downloading', 1, 9)],
      phase: 'downloading',
      why: 'the network is waited for',
    },
    { lines: [{ status: 'Something new', id: 'a' }], phase: 'resolving', why: 'nothing is known of layers' },
    { lines: [{ stream: 'x' }], phase: 'resolving', why: 'a line without a status is a sign of life' },
  ])('IC-8 $phase, since $why', ({ lines, phase }) => {
    expect(readAll(...lines).phase).toBe(phase);
  });

  it('a layer that the engine starts again takes nothing back', () => {
    const lines = [
      layer('a', 'Downloading', 80, 100),
      layer('a', 'Retrying in 1 second'),
      layer('a', 'Downloading', 3, 100),
    ];
    expect(readAll(...lines).bytes).toEqual({ done: 80, total: 100 });
  });

  it('keeps the last line, for the error after a silence', () => {
    const progress = new PullProgress();
    progress.read(layer('506c40f60539', 'Layer already being pulled by another client. Waiting.'));
    expect(progress.last).toBe('506c40f60539: Layer already being pulled by another client. Waiting.');
  });

  it('is monotonic for any lines', () => {
    const line = fc.record({
      id: fc.constantFrom('a', 'b', 'c'),
      status: fc.constantFrom(
        'Pulling fs layer',
        'Waiting',
        'Downloading',
        'Verifying Checksum',
        'Download complete',
        'Extracting',
        'Pull complete',
        'Retrying in 1 second',
      ),
      progressDetail: fc.option(fc.record({ current: fc.nat(100), total: fc.nat(100) }), { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 40 }), (lines) => {
        const progress = new PullProgress();
        let before = 0;
        for (const each of lines) {
          progress.read(each);
          const { bytes } = progress.now;
          expect(bytes.done).toBeGreaterThanOrEqual(before);
          before = bytes.done;
        }
      }),
    );
  });
});
