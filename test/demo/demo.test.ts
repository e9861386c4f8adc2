import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

describe('npm run demo', { timeout: 90_000 }, () => {
  let folder: string;
  beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'handover-demo-test-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Its temporary files go into a folder of the test's own, by which its processes are known too. */
  function start(
    ...args: string[]
  ): ChildProcess & { readonly text: () => string; readonly said: (what: RegExp) => Promise<void> } {
    const child = spawn(process.execPath, ['--import', 'tsx', 'examples/demo/main.ts', ...args], {
      cwd: ROOT,
      env: { ...process.env, TMPDIR: folder },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    const listeners = new Set<() => void>();
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      for (const listener of listeners) listener();
    });
    const said = (what: RegExp): Promise<void> =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!what.test(text)) return;
          listeners.delete(look);
          resolve();
        };
        listeners.add(look);
        child.once('exit', () => reject(new Error(`It ended without saying ${String(what)}:\n${text}`)));
        look();
      });
    return Object.assign(child, { text: () => text, said });
  }

  /** Command lines of processes that were started from the folder. */
  function processes(): string[] {
    const found: string[] = [];
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
        if (environment.includes(folder))
          found.push(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '));
      } catch {
        // It has just ended, or is not ours to look at.
      }
    }
    return found;
  }

  function expectNothingLeft(): void {
    // The loader's cache is not the demo's.
    expect(readdirSync(folder).filter((name) => !name.startsWith('tsx-') && !name.startsWith('node-compile'))).toEqual(
      [],
    );
    expect(processes()).toEqual([]);
  }

  it('--json prints one object and nothing else; kill-first is out of service longer', async () => {
    const demo = start('--json');
    const [code] = (await once(demo, 'close')) as [number];
    expect(code).toBe(0);
    const result = JSON.parse(demo.text()) as {
      killFirst: { outageMs: number; failed: number };
      handover: { outageMs: number; failed: number; outcome: string };
      order: string;
    };
    expect(Object.keys(result)).toEqual(['killFirst', 'handover', 'order']);
    expect(result.handover.outcome).toBe('replaced');
    expect(result.order).toBe('stop-first');
    expect(result.killFirst.failed).toBeGreaterThan(result.handover.failed);
    expect(result.killFirst.outageMs).toBeGreaterThan(result.handover.outageMs);
    expectNothingLeft();
  });

  it.each([
    { when: 'before anything has started', what: /An update of/ },
    { when: 'while the old one is the only one', what: /kill-first-v1: starting → running/ },
    { when: 'during the download, with nothing running', what: /kill-first-v2: pending → prestarting/ },
    { when: 'during the download, with the old one held', what: /handover-v1: running → held/ },
    { when: 'in the middle of the swap', what: /handover-v1: draining → stopping/ },
    { when: 'while the new one becomes healthy', what: /handover-v2: starting → running/ },
  ])('Ctrl-C $when leaves nothing', async ({ what }) => {
    const demo = start();
    const closed = once(demo, 'close');
    await demo.said(what);
    demo.kill('SIGINT');
    demo.kill('SIGINT');
    expect(await closed).toEqual([130, null]);
    expectNothingLeft();
  });

  it.each([
    { args: ['--docker'], problem: /--from REF and --to REF/ },
    { args: ['--docker', '--from', 'a', '--to', 'docker.io/library/a:latest'], problem: /two images/ },
    { args: ['--docker', '--from', 'A B', '--to', 'b'], problem: /^--from: .*A B/ },
    { args: ['--docker', '--from', 'a', '--to', '-x'], problem: /--to/ },
    { args: ['--path', '/x'], problem: /--path goes with --docker/ },
  ])('$args is refused in one line, with exit code 2', async ({ args, problem }) => {
    const demo = start(...args);
    let told = '';
    demo.stderr?.on('data', (chunk: Buffer) => (told += chunk.toString()));
    expect(await once(demo, 'close')).toEqual([2, null]);
    expect(demo.text()).toBe('');
    expect(told).toMatch(problem);
    expect(told).toMatch(/^.+\n$/);
  });
});
