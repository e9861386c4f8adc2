import { describe, expect, it } from 'vitest';
import { type Env, systemClock } from 'handover';
import { FakeClock, FakeRegistrar, memoryStore } from 'handover/testing';
import { requireMethods, resolveEnv } from '../src/env.js';

class Lacking extends FakeRegistrar {
  constructor(more: object) {
    super();
    Object.assign(this, more);
  }
}

describe('resolveEnv', () => {
  it.each([undefined, {}, { clock: undefined, onEvent: undefined, registrar: undefined, hooks: undefined }])(
    'G-2 %j gives the defaults',
    (env) => {
      const ground = resolveEnv(env);
      expect(ground).toMatchObject({ clock: systemClock, store: undefined, registrar: undefined, hooks: {} });
      expect(ground.onEvent).toBeTypeOf('function');
    },
  );

  it('G-2 takes what is given, and keys it does not know', () => {
    const env = {
      clock: new FakeClock(),
      store: memoryStore(),
      registrar: new FakeRegistrar(),
      hooks: {},
      onEvent: () => {},
      feed: {},
    };
    const { feed: _, ...known } = env;
    expect(resolveEnv(env)).toEqual(known);
  });

  it.each([
    [{ clock: { now: () => 0 } }, 'env.clock', 'Option env.clock: has no method wall()'],
    [{ clock: null }, 'env.clock', 'Option env.clock: has no method now()'],
    [{ registrar: { register: () => Promise.resolve() } }, 'env.registrar', 'has no method deregister()'],
    [{ registrar: 'consul' }, 'env.registrar', 'has no method register()'],
    [{ registrar: null }, 'env.registrar', 'has no method register()'],
    [{ registrar: new Lacking({ confirms: 1 }) }, 'env.registrar.confirms', 'must be a function'],
    [{ store: { list: () => Promise.resolve([]) } }, 'env.store', 'has no method batch()'],
    [{ store: null }, 'env.store', 'has no method batch()'],
    [{ onEvent: {} }, 'env.onEvent', 'must be a function'],
    [{ onEvent: null }, 'env.onEvent', 'must be a function'],
    [{ hooks: null }, 'env.hooks', 'must be an object'],
    [{ hooks: [] }, 'env.hooks', 'must be an object'],
    [{ hooks: { preStop: 1 } }, 'env.hooks.preStop', 'must be a function'],
    [{ hooks: { preStopFirst: 'no' } }, 'env.hooks.preStopFirst', 'must be true or false'],
    [null, 'env', 'must be an object'],
    [5, 'env', 'must be an object'],
    [[], 'env', 'must be an object'],
    [() => ({}), 'env', 'must be an object'],
  ])('G-2 refuses %j before anything is touched', (env, path, message) => {
    expect(() => resolveEnv(env as unknown as Env)).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_OPTION',
        details: { path },
        message: expect.stringContaining(message) as string,
      }),
    );
  });

  it('G-2 hooks may be methods of an object, and stay its own', () => {
    class Hooks {
      readonly calls: string[] = [];
      async preStop(id: string): Promise<void> {
        this.calls.push(id);
      }
    }
    const hooks = new Hooks();
    void resolveEnv({ hooks: hooks }).hooks.preStop?.('a', {});
    expect(hooks.calls).toEqual(['a']);
  });

  it('requireMethods finds methods of classes, and asks nothing of what is absent', () => {
    expect(() => requireMethods('x', new FakeRegistrar(), ['register', 'confirms'])).not.toThrow();
    expect(() => requireMethods('x', undefined, ['anything'])).not.toThrow();
  });
});
