import { describe, expect, it } from 'vitest';
import type { HandoverEvent } from 'handover';
import { FakeClock, eventLog } from 'handover/testing';
import { Emitter } from '../src/events.js';

type Heard = HandoverEvent | HandoverEvent<'warning'>;

/** Two emitters of two primitives with one env, as an orchestrator has them. */
function fixture(onEvent: (event: Heard) => void = () => undefined) {
  const clock = new FakeClock(5);
  const log = eventLog();
  const ground = {
    clock,
    onEvent: (event: HandoverEvent) => {
      log.onEvent(event);
      onEvent(event);
    },
  };
  const shutdown = new Emitter<'shutdown'>(ground);
  const image = new Emitter<'image'>(ground);
  const phase = (id: string) => shutdown.emit('shutdown:phase', { id, phase: 'drain', wait: null });
  const kept = (imageId: string) =>
    image.emit('image:kept', { imageId, reason: { code: 'image-in-use', message: 'in use', at: 5 } });
  return { clock, log, shutdown, image, phase, kept };
}
const nameOf = (event: Heard): string => ('id' in event ? event.id : 'imageId' in event ? event.imageId : event.type);

describe('Emitter', () => {
  it('G-7 tells the sink and the listeners of that type, with type and time', () => {
    const { shutdown, phase, kept, log, clock } = fixture();
    const heard: HandoverEvent[] = [];
    const end = shutdown.on('shutdown:phase', (event) => heard.push(event));
    phase('a1');
    clock.jump(10);
    kept('i1');
    end();
    end();
    phase('a2');
    expect(heard).toEqual([{ type: 'shutdown:phase', at: 5, id: 'a1', phase: 'drain', wait: null }]);
    expect(log.events.map((event) => [event.type, event.at])).toEqual([
      ['shutdown:phase', 5],
      ['image:kept', 15],
      ['shutdown:phase', 15],
    ]);
  });

  it('G-7 one function that subscribed twice is told twice, and unsubscribes once at a time', () => {
    const { shutdown, phase } = fixture();
    const heard: string[] = [];
    const listener = (event: HandoverEvent<'shutdown:phase'>) => heard.push(event.id);
    const ends = [shutdown.on('shutdown:phase', listener), shutdown.on('shutdown:phase', listener)];
    phase('both');
    ends[0]?.();
    phase('one');
    expect(heard).toEqual(['both', 'both', 'one']);
  });

  it('G-7 a throwing listener breaks nothing: the others are told, then a warning', () => {
    const { shutdown, phase, log } = fixture();
    const heard: string[] = [];
    shutdown.on('shutdown:phase', () => {
      throw new Error('oops');
    });
    shutdown.on('shutdown:phase', ({ id }) => heard.push(id));
    phase('a1');
    phase('a2');
    expect(heard).toEqual(['a1', 'a2']);
    expect(log.types()).toEqual(['shutdown:phase', 'warning', 'shutdown:phase', 'warning']);
    expect(log.events[1]).toEqual({
      ...{ type: 'warning', at: 5, subject: 'listener of shutdown:phase' },
      reason: { code: 'listener-threw', message: 'A listener of shutdown:phase threw: oops', at: 5 },
    });
  });

  it('G-7 a sink that throws on everything, its own warnings too, breaks nothing', () => {
    const { shutdown, phase, log } = fixture(() => {
      throw new Error('always');
    });
    const heard: string[] = [];
    shutdown.on('shutdown:phase', ({ id }) => heard.push(id));
    phase('a1');
    expect([heard, log.types()]).toEqual([['a1'], ['shutdown:phase', 'warning']]);
    phase('a2');
    expect(heard).toEqual(['a1', 'a2']);
  });

  it('G-7 an event raised inside a listener comes after the one that caused it, for everybody and across primitives', () => {
    const { shutdown, image, phase, kept, log } = fixture();
    const early: string[] = [];
    const late: string[] = [];
    shutdown.on('shutdown:phase', ({ id }) => {
      early.push(id);
      if (id === 'a1') {
        kept('i1');
        phase('a2');
        early.push('still in a1');
      }
    });
    image.on('image:kept', ({ imageId }) => {
      early.push(imageId);
      phase('a3');
    });
    shutdown.on('shutdown:phase', ({ id }) => late.push(id));
    image.on('image:kept', ({ imageId }) => late.push(imageId));
    phase('a1');
    expect(early).toEqual(['a1', 'still in a1', 'i1', 'a2', 'a3']);
    expect(late).toEqual(['a1', 'i1', 'a2', 'a3']);
    expect(log.events.map(nameOf)).toEqual(['a1', 'i1', 'a2', 'a3']);
  });

  it('G-7 an event raised inside the sink is queued too', () => {
    const world = fixture((event) => {
      if (nameOf(event) === 'a1') world.kept('i1');
    });
    const heard: string[] = [];
    world.shutdown.on('shutdown:phase', ({ id }) => heard.push(id));
    world.image.on('image:kept', ({ imageId }) => heard.push(imageId));
    world.phase('a1');
    expect(heard).toEqual(['a1', 'i1']);
  });

  it('G-7 subscribe, then read loses nothing: whatever is not yet readable is still told', () => {
    const { shutdown, phase } = fixture();
    const state: string[] = [];
    const move = (id: string) => {
      state.push(id);
      phase(id);
    };
    move('before');
    const told: string[] = [];
    shutdown.on('shutdown:phase', ({ id }) => told.push(state.includes(id) ? id : 'not readable yet'));
    const read = [...state];
    move('after');
    expect([...read, ...told]).toEqual(['before', 'after']);
  });

  it('G-7 who subscribes or leaves inside a listener counts from the next event on', () => {
    const { shutdown, phase } = fixture();
    const heard: string[] = [];
    const end = shutdown.on('shutdown:phase', ({ id }) => {
      heard.push(`first ${id}`);
      end();
      shutdown.on('shutdown:phase', (event) => heard.push(`second ${event.id}`));
    });
    phase('a1');
    phase('a2');
    expect(heard).toEqual(['first a1', 'second a2']);
  });

  it('warn() is a warning with the time of day', () => {
    const { shutdown, log } = fixture();
    shutdown.warn('web-1', { code: 'x', message: 'y' });
    expect(log.events).toEqual([
      { type: 'warning', at: 5, subject: 'web-1', reason: { code: 'x', message: 'y', at: 5 } },
    ]);
  });
});
