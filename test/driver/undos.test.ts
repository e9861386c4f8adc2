import { FakeClock } from 'handover/testing';
import { expect, it } from 'vitest';
import { Undos } from '../../src/driver/undos.js';
import { Emitter } from '../../src/events.js';
import { deferred } from '../../src/internal/deferred.js';

/** Undos, what they warned of, and an undo that fails as long as it is told to. */
function fixture() {
  const warned: string[] = [];
  const calls: string[] = [];
  const undos = new Undos(
    new Emitter({
      clock: new FakeClock(),
      onEvent: (event) => event.type === 'warning' && warned.push(`${event.subject}: ${event.reason.message}`),
    }),
  );
  const broken = { undo: true };
  const fail = (owner: string) =>
    undos.guard({ owner }, async (undo) => {
      calls.push(`work ${owner}`);
      undo.defer(async () => {
        calls.push(`undo ${owner}`);
        if (broken.undo) throw new Error('no answer');
      });
      throw new Error('the cause');
    });
  return { undos, warned, calls, broken, fail };
}

it('DP-3 work that fails is undone before it is told; work that succeeds keeps what it has made', async () => {
  const { undos, calls, broken, fail } = fixture();
  broken.undo = false;
  await expect(fail('a')).rejects.toThrow('the cause');
  expect(calls).toEqual(['work a', 'undo a']);
  const kept = await undos.guard({ owner: 'a' }, async (undo) => {
    undo.defer(async () => void calls.push('undo kept'));
    return undo.move();
  });
  expect(calls).toEqual(['work a', 'undo a']);
  await kept[Symbol.asyncDispose]();
  expect(calls.at(-1)).toBe('undo kept');
});

it('DP-1 an undo that fails does not hide why, is told, and comes before the next work of its owner', async () => {
  const { warned, calls, broken, fail } = fixture();
  await expect(fail('a')).rejects.toThrow('the cause');
  expect(warned).toEqual([
    'a: Could not undo all of the preparation of a; it is tried again with the next one: no answer',
  ]);
  await expect(fail('a')).rejects.toThrow('no answer');
  expect(calls).toEqual(['work a', 'undo a', 'undo a']);
  broken.undo = false;
  await expect(fail('a')).rejects.toThrow('the cause');
  expect(calls.slice(3)).toEqual(['undo a', 'work a', 'undo a']);
  await expect(fail('a')).rejects.toThrow('the cause');
  expect(calls.slice(6)).toEqual(['work a', 'undo a']);
  expect(warned).toHaveLength(2);
});

it('DP-1 it is tried again beside the work of others, who do not wait for it', async () => {
  const { undos, calls, broken, fail } = fixture();
  await expect(fail('a')).rejects.toThrow('the cause');
  broken.undo = false;
  expect(await undos.guard({ owner: 'b' }, async () => 'done')).toBe('done');
  expect(calls).toEqual(['work a', 'undo a', 'undo a']);
  await undos.guard({ owner: 'b' }, async () => 'done');
  expect(calls).toHaveLength(3);
});

it('G-4 who waits for an earlier undo can leave, and it goes on', async () => {
  const { undos } = fixture();
  const answer = deferred();
  const steps = [() => Promise.reject(new Error('no answer')), () => answer.promise];
  const failing = undos.guard({ owner: 'a' }, async (undo) => {
    undo.defer(async () => steps.shift()?.());
    throw new Error('the cause');
  });
  await expect(failing).rejects.toThrow('the cause');
  const controller = new AbortController();
  const next = undos.guard({ owner: 'a', signal: controller.signal }, async () => expect.unreachable());
  controller.abort(new Error('left'));
  await expect(next).rejects.toThrow('left');
  answer.resolve();
  expect(await undos.guard({ owner: 'a' }, async () => 'done')).toBe('done');
  expect(steps).toEqual([]);
});
