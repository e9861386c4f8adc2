import { describe, expect, it } from 'vitest';
import { type AllocPeer, type Sighting, NextAllocWatcher, PrevAllocWatcher, memoryFeed, peer } from 'handover';
import { turn, view } from './scripted-peer.js';
import { outcomeOf, world } from './world.js';

/** How an alloc is seen now. */
async function now({ watch }: Pick<AllocPeer, 'watch'>): Promise<Sighting['seen']> {
  for await (const { seen } of watch({})) return seen;
  throw new Error('nothing was seen');
}

describe('the feed', () => {
  it('AL-12: an alloc with a feed publishes each change, readable before it is told', async () => {
    const feed = memoryFeed();
    const w = world();
    const seen: string[] = [];
    const publish = feed.publish?.bind(feed);
    const alloc = w.alloc(
      'a',
      {},
      {},
      {
        feed: {
          ...feed,
          publish: (view) => {
            seen.push(`${view.state}${view.revision === alloc.status().revision ? '' : ' (not readable)'}`);
            publish?.(view);
          },
        },
      },
    );
    await w.clock.until(alloc.start());
    expect([...new Set(seen)]).toEqual(['prestarting', 'prepared', 'starting', 'running']);
    const first = await feed.watch('a', {})[Symbol.asyncIterator]().next();
    expect(first.value).toMatchObject({ seen: { id: 'a', state: 'running', reached: 'prepared', terminal: false } });
    expect(Object.keys((first.value as { seen: object }).seen).sort()).toEqual([
      ...['exclusive', 'id', 'reached', 'revision', 'state', 'stopBudget', 'terminal'],
    ]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-12: a feed that throws is a warning, and in nobody’s way', async () => {
    const w = world();
    const publish = (): void => {
      throw new Error('the bus is down');
    };
    const a = w.alloc('a', {}, {}, { feed: { ...memoryFeed(), publish } });
    await w.clock.until(a.start());
    expect(a.state).toBe('running');
    expect(JSON.stringify(w.log.events)).toContain('the bus is down');
    expect(await w.leftovers()).toBe(0);
  });
});

describe('the memory feed', () => {
  it('AL-12: a new alloc is seen before anybody touches it', async () => {
    const feed = memoryFeed();
    feed.synced();
    const w = world({ feed });
    expect(await now(peer(feed, 'b'))).toBe('absent');
    const b = w.alloc('b');
    expect(await now(peer(feed, 'b'))).toMatchObject({ id: 'b', state: 'pending', reached: 'none' });
    const gate = new NextAllocWatcher(peer(feed, 'b'), { gate: 'prepared' }, w.env).wait();
    await turn();
    await b.prestart();
    expect((await gate).outcome).toBe('reached');
  });

  it('AL-12: an id that nobody has published is not remembered for those who asked', async () => {
    const feed = memoryFeed();
    expect(await now(peer(feed, 'x'))).toBe('unreachable');
    feed.synced();
    expect(await now(peer(feed, 'x'))).toBe('absent');
  });

  it('AL-12: two who wait for the same id both learn of it, also when a third one has left', async () => {
    const feed = memoryFeed();
    const watches = [1, 2].map(() => feed.watch('x', {})[Symbol.asyncIterator]());
    for (const one of watches) expect((await one.next()).value).toEqual({ seen: 'unreachable' });
    await now(peer(feed, 'x'));
    feed.publish?.(view('running', { id: 'x' }));
    for (const one of watches) expect((await one.next()).value).toMatchObject({ seen: { state: 'running' } });
  });

  it('AL-12: those that have ended are remembered, but not all of them for ever', async () => {
    const feed = memoryFeed();
    feed.synced();
    feed.publish?.(view('running', { id: 'runs' }));
    for (let i = 0; i <= 1_000; i++) feed.publish?.(view('stopped', { id: `a${i}` }));
    expect(await now(peer(feed, 'a0'))).toBe('absent');
    expect(await now(peer(feed, 'a1'))).toMatchObject({ state: 'stopped' });
    expect(await now(peer(feed, 'runs'))).toMatchObject({ state: 'running' });
  });

  it('AL-2 AL-12: one that has ended and runs again under its id is not forgotten, and releases nobody', async () => {
    const feed = memoryFeed();
    feed.synced();
    feed.publish?.(view('stopped', { id: 'a' }));
    feed.publish?.(view('running', { id: 'a' }));
    for (let i = 0; i < 1_000; i++) feed.publish?.(view('stopped', { id: `x${i}` }));
    expect(await now(peer(feed, 'a'))).toMatchObject({ state: 'running' });
    const control = new AbortController();
    const wait = outcomeOf(new PrevAllocWatcher(peer(feed, 'a')).wait({ signal: control.signal }));
    await turn();
    control.abort('still waits');
    expect((await wait).error).toBe('still waits');
    // Its latest end counts: it is the last to be forgotten.
    feed.publish?.(view('stopped', { id: 'a' }));
    for (let i = 1_000; i < 1_999; i++) feed.publish?.(view('stopped', { id: `x${i}` }));
    expect(await now(peer(feed, 'a'))).toMatchObject({ state: 'stopped' });
  });

  it('AL-12 no lost wake-up: who watches an ended id sees it when it runs again, however many have ended since', async () => {
    const feed = memoryFeed();
    feed.synced();
    feed.publish?.(view('stopped', { id: 'a' }));
    const watch = feed.watch('a', {})[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ seen: { state: 'stopped' } });
    for (let i = 0; i < 1_000; i++) feed.publish?.(view('stopped', { id: `x${i}` }));
    feed.publish?.(view('running', { id: 'a' }));
    expect((await watch.next()).value).toMatchObject({ seen: { state: 'running' } });
    feed.publish?.(view('stopped', { id: 'a' }));
    for (let i = 1_000; i < 2_000; i++) feed.publish?.(view('stopped', { id: `x${i}` }));
    // Remembered for the one who watches, and no longer than that.
    await watch.return?.(undefined);
    expect(await now(peer(feed, 'a'))).toBe('absent');
  });

  it.each([
    { what: 'a feed', path: 'feed', call: () => peer(undefined as never, 'a') },
    { what: 'a feed that watches', path: 'feed', call: () => peer(5 as never, 'a') },
    { what: 'an id', path: 'id', call: () => peer(memoryFeed(), '') },
    { what: 'a view', path: 'view.id', call: () => memoryFeed().publish?.(undefined as never) },
    { what: 'an id of a view', path: 'view.id', call: () => memoryFeed().publish?.({} as never) },
  ])('G-2: $what is needed', ({ path, call }) => {
    expect(call).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }));
  });

  it('G-2: and an id to watch', async () => {
    const { error } = await outcomeOf(now({ watch: (call) => memoryFeed().watch(5 as never, call) }));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: 'id' } });
  });
});
