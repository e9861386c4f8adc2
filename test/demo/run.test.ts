import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AllocLifecycle, HandoverError } from 'handover';
import { FakeHost, type FakeScript } from 'handover/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Update, type Way, handover, killFirst, runUpdate } from '../../examples/demo/run.js';
import type { World } from '../../examples/demo/world.js';
import { clearAway } from '../../examples/demo/world-process.js';

const NO_SUCH_TAG = new HandoverError('ERR_PULL_FAILED', 'no such tag', {
  details: { reference: 'app:v9', reason: 'not-found-or-denied', attempts: 1 },
});

/** A server that answers while anything runs on a fake host, but for what runs and never answers. */
class FakeDemo {
  readonly host = new FakeHost();
  readonly #server = createServer((_request, response) => {
    response.writeHead(this.answers ? 200 : 503).end();
  });

  get answers(): boolean {
    return this.host.running().some((owner) => !owner.startsWith('mute'));
  }

  async world(script: FakeScript, second: string): Promise<World> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.host.script(second, script);
    const driver = this.host.driver();
    const env = { checks: { up: async () => this.answers } };
    const made: AllocLifecycle[] = [];
    const alloc = (id: string): AllocLifecycle => {
      const health = {
        ...{ minHealthyTime: 0, healthyDeadline: 200 },
        checks: [{ name: 'up', type: 'custom', interval: 20 } as const],
      };
      const tasks = [{ name: 'web', driver, spec: { version: id, port: 80 } }] as const;
      const one: AllocLifecycle = new AllocLifecycle({ id, tasks, health }, env);
      made.push(one);
      return one;
    };
    const reset = async (): Promise<void> => {
      await Promise.all(made.splice(0).map(clearAway));
    };
    const url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
    return { url, what: 'fakes', previous: () => alloc('v1'), next: () => alloc(second), reset, end: reset };
  }

  end(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

describe('one update of the demo', () => {
  let demo: FakeDemo;
  beforeEach(() => void (demo = new FakeDemo()));
  afterEach(() => demo.end());

  async function update(way: Way, script: FakeScript, second = 'v2'): Promise<Update> {
    const world = await demo.world(script, second);
    const { signal } = new AbortController();
    let cleared = 0;
    const came = await runUpdate(world, { name: 'run', way, signal, clearing: () => cleared++ });
    expect(cleared).toBe(1);
    expect(demo.host.remains()).toEqual([]);
    return came;
  }

  it('with a wrong tag kill-first has nothing to go back to: its outage is not over', async () => {
    const { outcome, outageMs, cause, failed } = await update(killFirst, { prestart: NO_SUCH_TAG });
    expect({ outcome, outageMs }).toEqual({ outcome: 'failed', outageMs: null });
    expect(cause).toContain('no such tag');
    expect(failed).toBeGreaterThan(10);
  });

  it('with a wrong tag handover keeps the old one, and no request fails', async () => {
    const { outcome, outageMs, cause, failed } = await update(handover, { prestart: NO_SUCH_TAG });
    expect({ outcome, outageMs, failed }).toEqual({ outcome: 'kept-previous', outageMs: 0, failed: 0 });
    expect(cause).toContain('no such tag');
  });

  it.each([{ way: killFirst }, { way: handover }])(
    'a version that never answers is given up at its deadline ($way.name)',
    async ({ way }) => {
      const { outcome, outageMs, cause } = await update(way, {}, 'mute');
      expect({ outcome, outageMs }).toEqual({ outcome: 'failed', outageMs: null });
      expect(cause).toMatch(/did not become healthy within 200ms/);
    },
  );

  it.each([{ way: killFirst }, { way: handover }])(
    'a version that comes up and ends at once has replaced nothing ($way.name)',
    async ({ way }) => {
      const { outcome, outageMs, cause } = await update(way, { exitAfter: 150, exit: { code: 1 } });
      expect({ outcome, outageMs }).toEqual({ outcome: 'failed', outageMs: null });
      expect(cause).toMatch(/^Version 2 came up, and does not serve any more\. Its task ended with code 1$/);
    },
  );

  it('called off, it rejects with the reason and leaves nothing', async () => {
    const world = await demo.world({ prestart: 'hang' }, 'v2');
    const control = new AbortController();
    const way: Way = (previous, next, signal) => {
      setImmediate(() => control.abort(new Error('Ctrl-C')));
      return killFirst(previous, next, signal);
    };
    const run = { name: 'run', way, signal: control.signal, clearing: () => undefined };
    await expect(runUpdate(world, run)).rejects.toThrow('Ctrl-C');
    expect(demo.host.remains()).toEqual([]);
  });
});
