import { appendFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LogChunk, LogOptions } from 'handover';
import type { ProcessHandle } from 'handover/process';
import { describe, expect, it } from 'vitest';
import { useStage } from './stage.js';
import { runs, written } from './tasks.js';

const stage = useStage();

async function all(handle: ProcessHandle, o?: LogOptions): Promise<Readonly<Record<LogChunk['stream'], string>>> {
  const text = { stdout: '', stderr: '' };
  for await (const { stream, chunk, at } of handle.logs(o)) {
    text[stream] += Buffer.from(chunk).toString('utf8');
    expect(at).toBe(undefined);
  }
  return text;
}

describe('logs()', () => {
  it('DP-10 what both files hold, while the task runs and after it has ended', async () => {
    const handle = await stage.run('echo out; echo err >&2; echo ready; exec sleep 60');
    await written(handle, 'ready');
    expect(await all(handle)).toEqual({ stdout: 'out\nready\n', stderr: 'err\n' });
    await handle.kill({});
    await handle.wait({});
    expect(await all(handle, { since: Date.now() + 1e6 })).toEqual({ stdout: 'out\nready\n', stderr: 'err\n' });
    const recovered = await stage.host.driver().recover(handle.state, { owner: handle.id });
    expect(await all(recovered!)).toEqual({ stdout: 'out\nready\n', stderr: 'err\n' });
  });

  it('DP-10 followed it ends with the task, with the last that it wrote', async () => {
    const handle = await stage.run('echo first; sleep 0.3; echo last');
    expect(await all(handle, { follow: true })).toEqual({ stdout: 'first\nlast\n', stderr: '' });
  });

  it('DP-10 one file for both is read once', async () => {
    const handle = await stage.run('echo a; echo b >&2', { stdout: 'log', stderr: 'log' });
    await handle.wait({});
    expect(await all(handle)).toEqual({ stdout: 'a\nb\n', stderr: '' });
  });

  it('DP-10 what is no file, or gone, has nothing to be read', async () => {
    const handle = await stage.run('echo a; echo b >&2', { stdout: '/dev/null' });
    await handle.wait({});
    expect(await all(handle)).toEqual({ stdout: '', stderr: 'b\n' });
    await handle.destroy();
    expect(await all(handle)).toEqual({ stdout: '', stderr: '' });
  });

  it('DP-10 a file that was cut short is read from its new beginning', async () => {
    const handle = await stage.run('exec sleep 60');
    const file = join(handle.state.directory, 'stdout.log');
    await writeFile(file, 'a long first line\n');
    const seen: string[] = [];
    for await (const { chunk } of handle.logs({ follow: true })) {
      seen.push(Buffer.from(chunk).toString('utf8'));
      if (seen.length === 1) {
        await truncate(file);
        await appendFile(file, 'new\n');
      } else break;
    }
    expect(seen).toEqual(['a long first line\n', 'new\n']);
  });

  it('DP-10 is read no further than it is wanted, block by block', async () => {
    const handle = await stage.run('head -c 200000 /dev/zero; echo; echo done >&2');
    await handle.wait({});
    const sizes: number[] = [];
    for await (const { chunk } of handle.logs()) sizes.push(chunk.length);
    expect(sizes).toEqual([65_536, 65_536, 65_536, 3_393, 5]);
  });

  it.each([true, false])('G-4 an abort ends it with the reason: while it is read=%s', async (reading) => {
    const handle = await stage.run('echo ready; exec sleep 60');
    await written(handle, 'ready');
    const controller = new AbortController();
    const reason = new Error('read enough');
    if (!reading) controller.abort(reason);
    const read = async (): Promise<void> => {
      for await (const { chunk } of handle.logs({ follow: true, signal: controller.signal })) {
        expect(Buffer.from(chunk).toString()).toBe('ready\n');
        if (reading) setTimeout(() => controller.abort(reason));
        else expect.unreachable();
      }
    };
    await expect(read()).rejects.toBe(reason);
  });

  it.each([null, { follow: 1 }, { since: 'x' }, { lines: 1 }])('G-2 %j is refused at once', async (o) => {
    const handle = await stage.run('exec sleep 60');
    expect(() => handle.logs(o as never)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION' }));
  });
});

describe('exec()', () => {
  it('DP-8 runs where the task does, with its environment', async () => {
    const handle = await stage.run('echo ready; exec sleep 60', {
      cwd: '/',
      env: { SECRET: 'a=b' },
      inheritEnv: ['PATH'],
    });
    await written(handle, 'ready');
    const print = ['sh', '-c', 'pwd; echo "$SECRET ${HOME-unset}"; echo err >&2; exit 7'];
    for (const one of [handle, await stage.host.driver().recover(handle.state, { owner: handle.id })]) {
      const { code, output } = await one!.exec(print, {});
      expect([code, output.split('\n').sort()]).toEqual([7, ['', '/', 'a=b unset', 'err']]);
    }
  });

  it.runIf(process.getuid?.() === 0)('DP-10 runs as the user of the task', async () => {
    const handle = await stage.run('exec sleep 60', { uid: 65_534, gid: 65_533 });
    expect(await handle.exec(['sh', '-c', 'echo "$(id -u) $(id -g)"'], {})).toEqual({
      code: 0,
      output: '65534 65533\n',
    });
  });

  it.each([
    ['kill -9 $$', 137],
    ['kill -15 $$', 143],
  ])('DP-8 "%s" ends with %i, as a shell would say', async (script, code) => {
    const handle = await stage.run('exec sleep 60');
    expect(await handle.exec(['sh', '-c', script], {})).toEqual({ code, output: '' });
  });

  it.each([
    ['/no/such/program', 127],
    ['/etc', 126],
  ])('DP-8 %s cannot be run: code %i, and why', async (program, code) => {
    const handle = await stage.run('exec sleep 60');
    const result = await handle.exec([program], {});
    expect(result.code).toBe(code);
    expect(result.output).toContain(program);
  });

  it('DP-8 keeps the last 64 KiB', async () => {
    const handle = await stage.run('exec sleep 60');
    const { output } = await handle.exec(['sh', '-c', 'head -c 200000 /dev/zero | tr "\\0" x; echo'], {});
    expect(output).toBe(`${'x'.repeat(65_535)}\n`);
  });

  it('G-4 an abort ends the command with all that it has started', async () => {
    const handle = await stage.run('exec sleep 60');
    const controller = new AbortController();
    const exec = handle.exec(['sh', '-c', 'sleep 61 & echo "$!" > pid; wait'], { signal: controller.signal });
    const pid = Number(await written(handle, '\n', 'pid'));
    expect(runs(pid)).toBe(true);
    controller.abort(new Error('enough'));
    await expect(exec).rejects.toThrow('enough');
    await expect.poll(() => runs(pid)).toBe(false);
    expect(await handle.isRunning({})).toBe(true);
  });

  it('G-4 with a signal that has aborted nothing is run', async () => {
    const handle = await stage.run('exec sleep 60');
    const exec = handle.exec(['sh', '-c', 'echo > made'], { signal: AbortSignal.abort(new Error('too late')) });
    await expect(exec).rejects.toThrow('too late');
  });

  it('DP-8 for a task that has ended: an error that says so', async () => {
    const handle = await stage.run('true');
    await handle.wait({});
    await expect(handle.exec(['true'], {})).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining('web-1/main does not run') as unknown,
      details: { operation: 'exec' },
    });
  });

  it.each([[[]], [['']], ['ls'], [['ls', 5]], [['ls', 'a\0']]])('G-2 %j is no command', async (argv) => {
    const handle = await stage.run('exec sleep 60');
    await expect(handle.exec(argv as never, {})).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
    await expect(handle.exec(['true'], null as never)).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });
});
