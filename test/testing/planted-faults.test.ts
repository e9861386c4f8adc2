import type { ExitResult, ListedTask, PreparedTask, TaskDriver, TaskHandle } from 'handover';
import { describeTaskDriver, FakeClock, FakeHost, type FakeScript, type FakeSpec } from 'handover/testing';
import { expect, it } from 'vitest';

type Driver = TaskDriver<FakeSpec, { id: string }>;
type Check = readonly [name: string, body: () => Promise<void>];

/** Something with some of its members changed; the rest goes on working on what it was. */
function changed<T extends object>(of: T, members: Partial<T>): T {
  return new Proxy(of, {
    get(target, key) {
      const value: unknown = Reflect.get(key in members ? members : target, key);
      return typeof value === 'function' && !(key in members) ? (value.bind(target) as unknown) : value;
    },
  });
}

function withHandle(
  driver: Driver,
  change: (handle: TaskHandle<{ id: string }>) => Partial<TaskHandle<{ id: string }>>,
): Driver {
  return changed(driver, {
    async start(prepared, call) {
      const handle = await driver.start(prepared, call);
      return changed(handle, change(handle));
    },
  });
}

function withExit(driver: Driver, change: (exit: ExitResult) => ExitResult): Driver {
  return withHandle(driver, (handle) => ({ wait: async (call) => change(await handle.wait(call)) }));
}

interface Plot {
  readonly driver: Driver;
  readonly host: FakeHost;
  /** What is true in every driver of one world. */
  readonly world: Map<string, unknown>;
}

/** Each with a check that has to find it. */
const FAULTS: Readonly<Record<string, readonly [finder: string, plant: (plot: Plot) => Driver]>> = {
  'starts in prestart': [
    'DP-5',
    ({ driver }) =>
      changed(driver, {
        async prestart(ctx) {
          const prepared = await driver.prestart(ctx);
          await driver.start(prepared, {});
          return prepared;
        },
      }),
  ],
  'leaves something when it is aborted': [
    'DP-3 an abort in the middle',
    ({ driver, host }) =>
      changed(driver, {
        prestart: (ctx) =>
          driver.prestart(ctx).catch(async (error: unknown) => {
            host.script(ctx.allocId, {});
            if (ctx.signal?.aborted === true) await driver.prestart({ ...ctx, signal: undefined });
            throw error;
          }),
      }),
  ],
  'sends SIGTERM again before it kills': [
    'SS-5 what is sent is sent once',
    ({ driver }) =>
      withHandle(driver, (handle) => ({
        async kill(call) {
          await handle.signal('SIGTERM', call);
          await handle.kill(call);
        },
      })),
  ],
  'loses the exit code': [
    'DP-9 a task that ends by itself',
    ({ driver }) => withExit(driver, (exit) => ({ ...exit, code: 0 })),
  ],
  'says of every end that it was the task’s own': [
    'DP-9 a task that our kill ended',
    ({ driver }) => withExit(driver, (exit) => ({ ...exit, by: 'self' })),
  ],
  'discards what runs': [
    'DP-1 discard() after start()',
    ({ driver }) => {
      const handles = new Map<string, TaskHandle>();
      const originals = new WeakMap<PreparedTask, PreparedTask>();
      return changed(driver, {
        async prestart(ctx) {
          const prepared = await driver.prestart(ctx);
          const wrapped = changed(prepared, {
            async discard() {
              await handles.get(ctx.owner)?.kill({});
              await handles.get(ctx.owner)?.wait({});
              await prepared.discard();
            },
          });
          originals.set(wrapped, prepared);
          return wrapped;
        },
        async start(prepared, call) {
          const handle = await driver.start(originals.get(prepared) ?? prepared, call);
          handles.set(handle.id, handle);
          return handle;
        },
      });
    },
  ],
  'keeps what was prepared for another spec': [
    'DP-2 S44 another spec',
    ({ driver, world }) =>
      changed(driver, {
        async prestart(ctx) {
          const first = (world.get(ctx.owner) ?? driver.prestart(ctx)) as Promise<PreparedTask>;
          world.set(ctx.owner, first);
          return first;
        },
      }),
  ],
  'prepares twice for two who ask at the same time': [
    'DP-2 S44 the same spec',
    ({ driver, world }) =>
      changed(driver, {
        prestart(ctx) {
          const nth = Number(world.get('asked') ?? 0);
          world.set('asked', nth + 1);
          return driver.prestart(nth === 0 ? ctx : { ...ctx, owner: `${ctx.owner}-${nth}`, task: `main-${nth}` });
        },
      }),
  ],
  'recovers what is gone': [
    'DP-8 recover() of a task that is gone',
    ({ driver, world }) =>
      changed(driver, {
        async start(prepared, call) {
          const handle = await driver.start(prepared, call);
          world.set('handle', handle);
          return handle;
        },
        recover: async (state, call) =>
          (await driver.recover(state, call)) ?? (world.get('handle') as TaskHandle<{ id: string }>),
      }),
  ],
  'lists only what runs': [
    'DP-5',
    ({ driver }) =>
      changed(driver, { list: async (call) => (await driver.list(call)).filter(({ started }) => started) }),
  ],
  'loses labels': [
    'DP-8 list() tells the labels',
    ({ driver }) =>
      changed(driver, {
        list: async (call) => (await driver.list(call)).map(({ labels: _, ...one }): ListedTask<{ id: string }> => one),
      }),
  ],
  'has a state that is no JSON': [
    'DP-8 recover() finds a running task',
    ({ driver }) => withHandle(driver, (handle) => ({ state: { ...handle.state, at: new Date() } })),
  ],
  'waits on after an abort': [
    'G-4 an abort ends the waiting',
    ({ driver }) => withHandle(driver, (handle) => ({ wait: () => handle.wait({}) })),
  ],
  'leaves a listener on a signal': [
    'C61 nothing of isRunning()',
    ({ driver }) =>
      withHandle(driver, (handle) => ({
        isRunning: (call) => {
          call.signal?.addEventListener('abort', () => undefined);
          return handle.isRunning(call);
        },
      })),
  ],
  'starts what was called off': [
    'G-4 start() with a signal',
    ({ driver }) => changed(driver, { start: (prepared) => driver.start(prepared, {}) }),
  ],
  'destroys what runs': [
    'DP-8 destroy() of a task that still runs',
    ({ driver }) =>
      withHandle(driver, (handle) => ({
        async destroy(call) {
          await handle.kill({});
          await handle.wait({});
          await handle.destroy(call);
        },
      })),
  ],
  'leaves the remains': [
    'DP-8 destroy() leaves nothing',
    ({ driver }) => withHandle(driver, () => ({ destroy: async () => undefined })),
  ],
  'names ports that it does not have': [
    'DP-8 ports() is pure',
    ({ driver }) => changed(driver, { ports: () => ['http', 'admin'] }),
  ],
  'takes keys that it does not know': [
    'G-2 parse() takes a spec as JSON',
    ({ driver }) => changed(driver, { parse: (input) => driver.parse({ version: (input as FakeSpec).version }) }),
  ],
  'answers differently each time': [
    'DP-7 exclusive() is pure',
    ({ driver, world }) =>
      changed(driver, {
        exclusive: () => {
          world.set('asked', Number(world.get('asked') ?? 0) + 1);
          return [{ kind: 'port', key: `${Number(world.get('asked'))}/tcp`, scope: 'host', needed: 'start' }];
        },
      }),
  ],
  'follows output for ever': [
    'DP-8 logs() followed ends',
    ({ driver }) =>
      withHandle(driver, (handle) => ({
        async *logs(o) {
          yield* handle.logs?.(o) ?? [];
          if (o?.follow === true) await new Promise(() => undefined);
        },
      })),
  ],
  'loses the code of a command': [
    'DP-8 exec() tells the exit code',
    ({ driver }) =>
      withHandle(driver, (handle) => ({
        exec: async (argv, call) => ({ ...(await handle.exec!(argv, call)), code: 0 }),
      })),
  ],
};

/** The names of the checks, and those of them that fail. */
async function run(
  plant: (plot: Plot) => Driver,
): Promise<{ readonly all: readonly string[]; readonly red: readonly string[] }> {
  const checks: Check[] = [];
  let clock = new FakeClock();
  let host = new FakeHost({ clock });
  let world = new Map<string, unknown>();
  const make = async (): Promise<Driver> => plant({ driver: host.driver(), host, world });
  const scripted =
    (script: FakeScript) =>
    (allocId: string): FakeSpec => {
      host.script(allocId, script);
      return { version: 'v1' };
    };
  describeTaskDriver<FakeSpec>('planted', {
    runner: { describe: (_, body) => body(), it: (name, body) => checks.push([name, body]) },
    async make() {
      clock = new FakeClock();
      host = new FakeHost({ clock });
      world = new Map();
      return make();
    },
    again: make,
    spec: (version) => ({ version }),
    settle: (promise) => clock.until(promise),
    vanish: async (owner) => host.prune(owner),
    ready: async ({ id }) => host.script(id, { exec: ([, code]) => ({ code: Number(code), output: 'ran\n' }) }),
    exiting: scripted({ exitAfter: '1s', exit: { code: 3 } }),
    stubborn: scripted({ ignores: ['SIGTERM'] }),
    hanging: scripted({ prestart: 'hang' }),
    speaking: scripted({ output: { stdout: 'out\n', stderr: 'err\n' } }),
    command: (code) => ['run', String(code)],
    signals: (owner) =>
      host.calls.filter((call) => call.startsWith(`signal ${owner} `)).map((call) => call.split(' ')[2]!),
  });
  const red: string[] = [];
  for (const [name, body] of checks) await body().catch(() => red.push(name));
  return { all: checks.map(([name]) => name), red };
}

it('DP-11 a driver without a fault is green, in sixty checks and more', async () => {
  const { all, red } = await run(({ driver }) => driver);
  expect(red).toEqual([]);
  expect(new Set(all).size).toBe(all.length);
  expect(all.length).toBeGreaterThanOrEqual(60);
});

it.each(Object.entries(FAULTS))('DP-11 a driver that %s is red', async (_, [finder, plant]) => {
  const { red } = await run(plant);
  expect(red.filter((name) => name.startsWith(finder))).not.toEqual([]);
});
