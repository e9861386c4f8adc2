import { describe, expect, it } from 'vitest';
import { type AllocLifecycle, type AllocStatus, HandoverError } from 'handover';
import { turn } from './scripted-peer.js';
import { SERVED, outcomeOf, refusedStart, world } from './world.js';

describe('events', () => {
  it('G-7: each transition is told once, in order, with what it came from, after it can be read', async () => {
    const w = world();
    const a = w.alloc('a', SERVED);
    const wrong: string[] = [];
    let last = 'pending';
    const end = a.on('alloc:changed', ({ from, alloc, at }) => {
      if (from !== last) wrong.push(`${alloc.state} came from ${last}, not ${from}`);
      if (a.status().revision < alloc.revision) wrong.push(`${alloc.state} cannot be read yet`);
      if (at !== w.clock.wall()) wrong.push('its time is wrong');
      last = alloc.state;
    });
    await w.clock.until(a.start());
    await w.clock.until(a.until('healthy'));
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect(wrong).toEqual([]);
    expect(w.states('a')).toEqual([
      ...['prestarting', 'prepared', 'starting', 'running', 'draining', 'stopping', 'stopped'],
    ]);
    const revisions = w.log.events.flatMap((event) => ('alloc' in event ? [event.alloc.revision] : []));
    expect(revisions).toEqual([...revisions].sort((x, y) => x - y));
    expect(new Set(revisions).size).toBe(revisions.length);
    end();
  });

  it('G-7: a listener that throws or acts breaks nothing', async () => {
    const w = world();
    const a = w.alloc('a', SERVED);
    a.on('alloc:changed', ({ alloc }) => {
      if (alloc.state === 'running') a.stop({ reason: 'operator' });
      throw new Error('a slip');
    });
    await w.clock.until(a.start());
    await w.clock.until(a.until('terminal'));
    expect(w.states('a').at(-1)).toBe('stopped');
    await turn();
    expect([w.registered(), w.host.running(), w.clock.pending]).toEqual([[], [], 0]);
  });

  it('G-9: the reason of each state says why', async () => {
    const w = world();
    const a = w.alloc('a');
    const reasons: string[] = [a.status().reason.code];
    a.on('alloc:changed', ({ alloc }) => reasons.push(alloc.reason.code));
    await w.clock.until(a.start());
    await w.clock.until(a.stop({ reason: 'scale-in' }).result);
    expect(reasons).toEqual([
      'created',
      'prestart',
      'prepared',
      'starting',
      'started',
      'scale-in',
      'scale-in',
      'exited',
    ]);
    expect(a.status().since).toBe(w.clock.wall());
  });
});

describe('secrets', () => {
  const SECRET = 'hunter2-of-the-spec';

  it('G-6: no spec and no env in events, status, errors', async () => {
    const w = world();
    const all: unknown[] = [];
    const keep = (alloc: AllocLifecycle): AllocStatus => {
      all.push(alloc.status(), alloc);
      return alloc.status();
    };
    const cases = [
      { id: 'fine', script: {} },
      { id: 'unprepared', script: { prestart: refusedStart() } },
      { id: 'unstarted', script: { start: refusedStart() } },
      { id: 'dead', script: { exitAfter: '1s', exit: { code: 1 } } },
      { id: 'immortal', script: { ignores: ['SIGTERM', 'SIGKILL'] } },
    ];
    for (const { id, script } of cases) {
      w.host.script(id, script);
      const alloc = w.alloc(id, { ...SERVED, prestart: { timeout: '1h' } }, { version: SECRET });
      all.push(await outcomeOf(w.clock.until(alloc.start())));
      keep(alloc);
      all.push(await outcomeOf(w.clock.until(alloc.until('healthy'))));
      all.push(await w.clock.until(alloc.stop({ reason: 'operator' }).result));
      keep(alloc);
      all.push(await outcomeOf(alloc.destroy()));
    }
    const dump = JSON.stringify([all, w.log.events], (_, value: unknown) =>
      value instanceof Error && !(value instanceof HandoverError) ? [value.message, value.stack, value.cause] : value,
    );
    expect(dump.length).toBeGreaterThan(10_000);
    expect(dump).not.toContain(SECRET);
  });
});
