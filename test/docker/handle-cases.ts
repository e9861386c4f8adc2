import type { LogChunk, LogOptions, TaskHandle } from 'handover';
import type { DockerSpec, DockerState } from 'handover/docker';
import { describe, expect, it } from 'vitest';

export type Handle = TaskHandle<DockerState> & Required<Pick<TaskHandle, 'logs' | 'exec' | 'health'>>;

/** How a suite gets a container that runs; it is cleared away after the test. */
export type Start = (spec: Partial<DockerSpec>) => Promise<Handle>;

/** A container that writes, and ends. */
export const app = (out: string, err = '', code = 0, ms = 0): Partial<DockerSpec> => ({
  command: ['/bin/app', 'do', out, err, String(code), String(ms)],
});

/** Everything that is read, as text by stream. */
export async function all(handle: Handle, o?: LogOptions): Promise<Readonly<Record<LogChunk['stream'], string>>> {
  const text = { stdout: '', stderr: '' };
  for await (const { stream, chunk } of handle.logs(o)) text[stream] += Buffer.from(chunk).toString('utf8');
  return text;
}

export function handleCases(start: Start): void {
  describe('logs()', () => {
    it('DP-8 both outputs, byte by byte, with the time of each', async () => {
      const before = Date.now();
      const handle = await start(app('a \ntwo', 'é\n'));
      await handle.wait({});
      const chunks: LogChunk[] = [];
      for await (const chunk of handle.logs()) chunks.push(chunk);
      expect(await all(handle)).toEqual({ stdout: 'a \ntwo', stderr: 'é\n' });
      for (const { at } of chunks) {
        // Podman tells whole seconds.
        expect(at).toBeGreaterThanOrEqual(before - 1000);
        expect(at).toBeLessThanOrEqual(Date.now() + 1);
      }
    });

    it('DP-8 without follow it ends with what there is, while the task runs', async () => {
      const handle = await start(app('here\n', '', 0, 60_000));
      await expect.poll(() => all(handle)).toEqual({ stdout: 'here\n', stderr: '' });
      expect(await handle.isRunning({})).toBe(true);
    });

    it('DP-8 followed it ends with the task', async () => {
      const handle = await start(app('first\n', '', 0, 300));
      expect(await all(handle, { follow: true })).toEqual({ stdout: 'first\n', stderr: '' });
      expect(await handle.isRunning({})).toBe(false);
    });

    it('DP-8 only what was written since', async () => {
      const handle = await start(app('first\n'));
      await handle.wait({});
      expect(await all(handle, { since: Date.now() + 60_000 })).toEqual({ stdout: '', stderr: '' });
      expect(await all(handle, { since: Date.now() - 60_000 })).toEqual({ stdout: 'first\n', stderr: '' });
    });

    it('DP-8 a line that an engine keeps in pieces is whole', async () => {
      const handle = await start({ command: ['/bin/app', 'fill', '100000'] });
      await handle.wait({});
      expect((await all(handle)).stdout).toBe('x'.repeat(100_000));
    });

    it('DP-8 of a terminal, as it comes: one stream, no times', async () => {
      const handle = await start({ ...app('out\n', 'err\n', 0, 200), create: { Tty: true } });
      expect((await all(handle, { follow: true })).stdout.replace('err\r\n', '')).toBe('out\r\n');
      for await (const { at } of handle.logs()) expect(at).toBe(undefined);
    });

    it('DP-8 a log driver that cannot be read is told in the engine’s words', async () => {
      const handle = await start({ ...app('x', '', 0, 60_000), log: { driver: 'none' } });
      for (const follow of [true, false]) {
        await expect(all(handle, { follow })).rejects.toMatchObject({
          code: 'ERR_DRIVER',
          message: expect.stringMatching(/does not support reading|using the 'none' log driver/) as unknown,
        });
      }
    });

    it('DP-8 of a container that is gone: an error', async () => {
      const handle = await start(app('x'));
      await handle.wait({});
      await handle.destroy();
      await expect(all(handle)).rejects.toMatchObject({ code: 'ERR_DRIVER', details: { status: 404 } });
    });

    it.each([true, false])('G-4 an abort ends it with the reason: while it is read=%s', async (reading) => {
      const handle = await start(app('first\n', '', 0, 60_000));
      const controller = new AbortController();
      const reason = new Error('read enough');
      const seen: string[] = [];
      if (!reading) controller.abort(reason);
      const read = async (): Promise<void> => {
        for await (const { chunk } of handle.logs({ follow: true, signal: controller.signal })) {
          seen.push(Buffer.from(chunk).toString('utf8'));
          controller.abort(reason);
        }
      };
      await expect(read()).rejects.toBe(reason);
      expect(seen).toEqual(reading ? ['first\n'] : []);
    });

    it.each([null, 5, { follow: 'yes' }, { since: -1 }, { since: '1m' }, { since: NaN }, { tail: 5 }])(
      'G-2 %j is refused at once',
      async (o) => {
        const handle = await start(app('x', '', 0, 60_000));
        expect(() => handle.logs(o as never)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION' }));
      },
    );
  });

  describe('exec()', () => {
    it.each([0, 7])('DP-8 tells both outputs and the code: %s', async (code) => {
      const handle = await start({});
      const { code: exit, output } = await handle.exec(['/bin/app', 'do', 'out\n', 'err\n', String(code), '0'], {});
      expect([exit, output.split('\n').sort()]).toEqual([code, ['', 'err', 'out']]);
    });

    it('DP-8 waits for the end of a command', async () => {
      const handle = await start({});
      expect(await handle.exec(['/bin/app', 'do', 'slow', '', '3', '300'], {})).toEqual({ code: 3, output: 'slow' });
    });

    it('DP-8 keeps the last 64 KiB', async () => {
      const handle = await start({});
      const { output } = await handle.exec(['/bin/app', 'fill', '200000'], {});
      expect(output).toBe('x'.repeat(65_536));
    });

    it('DP-8 a program that is not there has the engine’s words and a code', async () => {
      const handle = await start({});
      const { code, output } = await handle.exec(['/no/such/program'], {});
      expect([126, 127]).toContain(code);
      expect(output).toContain('/no/such/program');
    });

    it('DP-8 in a container that has ended: an error that says so', async () => {
      const handle = await start(app(''));
      await handle.wait({});
      await expect(handle.exec(['/bin/app'], {})).rejects.toMatchObject({
        code: 'ERR_DRIVER',
        message: expect.stringMatching(/not running|on running containers/) as unknown,
      });
    });

    it('G-4 an abort stops the waiting', async () => {
      const handle = await start({});
      const controller = new AbortController();
      const exec = handle.exec(['/bin/app', 'do', '', '', '0', '60000'], { signal: controller.signal });
      setImmediate(() => controller.abort(new Error('enough')));
      await expect(exec).rejects.toThrow('enough');
      expect(await handle.isRunning({})).toBe(true);
    });

    it.each([[[]], [['']], ['ls'], [['ls', 5]], [['a\0']], [['ls', 'a\0']]])('G-2 %j is no command', async (argv) => {
      const handle = await start({});
      await expect(handle.exec(argv as never, {})).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
    });
  });

  it('DP-8 health() without a check is none', async () => {
    const handle = await start({});
    expect(await handle.health({})).toBe('none');
    await expect(handle.health(null as never)).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });

  it('DP-8 health() is starting until the first check has passed', async () => {
    const handle = await start({ healthcheck: { test: ['/bin/app', 'do', '', '', '0', '0'], interval: '1h' } });
    expect(await handle.health({})).toBe('starting');
  });
}
