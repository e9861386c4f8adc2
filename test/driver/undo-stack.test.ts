import { UndoStack } from 'handover';
import { describe, expect, it } from 'vitest';

function recorder() {
  const calls: string[] = [];
  const undo =
    (name: string, fails: () => boolean = () => false) =>
    async (): Promise<void> => {
      calls.push(name);
      if (fails()) throw new Error(`${name} failed`);
    };
  return { calls, undo };
}

describe('UndoStack', () => {
  it('DP-3 undoes last in, first out, disposables and steps alike', async () => {
    const { calls, undo } = recorder();
    const stack = new UndoStack();
    const lease = { [Symbol.asyncDispose]: undo('lease') };
    expect(stack.use(lease)).toBe(lease);
    stack.defer(undo('directory'));
    stack.defer(undo('container'));
    await stack[Symbol.asyncDispose]();
    expect(calls).toEqual(['container', 'directory', 'lease']);
  });

  it('DP-3 one failing undo does not stop the others, and is the error', async () => {
    const { calls, undo } = recorder();
    const stack = new UndoStack();
    stack.defer(undo('a'));
    stack.defer(undo('b', () => true));
    stack.defer(undo('c'));
    await expect(stack[Symbol.asyncDispose]()).rejects.toThrow('b failed');
    expect(calls).toEqual(['c', 'b', 'a']);
  });

  it('DP-3 several failing undos are all in the error', async () => {
    const { undo } = recorder();
    const stack = new UndoStack();
    stack.defer(undo('a', () => true));
    stack.defer(undo('b', () => true));
    const error: unknown = await stack[Symbol.asyncDispose]().catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(AggregateError);
    expect((error as AggregateError).errors.map(String)).toEqual(['Error: b failed', 'Error: a failed']);
  });

  it('DP-1 what could not be undone is tried again, in the same order, and nothing else is', async () => {
    const { calls, undo } = recorder();
    let broken = true;
    const stack = new UndoStack();
    stack.defer(undo('a', () => broken));
    stack.defer(undo('b'));
    stack.defer(undo('c', () => broken));
    await expect(stack[Symbol.asyncDispose]()).rejects.toThrow();
    broken = false;
    calls.length = 0;
    await stack[Symbol.asyncDispose]();
    await stack[Symbol.asyncDispose]();
    expect(calls).toEqual(['c', 'a']);
  });

  it('DP-3 disposing twice at the same time undoes once', async () => {
    const { calls, undo } = recorder();
    const stack = new UndoStack();
    stack.defer(undo('a'));
    await Promise.all([stack[Symbol.asyncDispose](), stack[Symbol.asyncDispose]()]);
    expect(calls).toEqual(['a']);
  });

  it('DP-3 move() hands over: the first stack undoes nothing, the second everything', async () => {
    const { calls, undo } = recorder();
    const stack = new UndoStack();
    stack.defer(undo('a'));
    const moved = stack.move();
    await stack[Symbol.asyncDispose]();
    expect(calls).toEqual([]);
    await moved[Symbol.asyncDispose]();
    expect(calls).toEqual(['a']);
  });
});
