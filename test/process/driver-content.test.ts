import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { useStage } from './stage.js';
import { context, stateFile, written } from './tasks.js';

const stage = useStage();

it('DP-10 the artifact is in the task’s directory under its base name, and can be the program', async () => {
  const artifact = stage.host.origin.content('/v1/app.sh', '#!/bin/sh\necho version one\nexec sleep 60\n');
  const prepared = await stage.driver.prestart(context({ argv: ['./app.sh'], artifact }));
  expect(stage.host.origin.requests).toEqual(['GET /v1/app.sh']);
  const handle = await stage.driver.start(prepared, {});
  await stage.mind(handle);
  await written(handle, 'version one');
  expect(handle.state).toMatchObject({ directory: prepared.directory, reference: artifact });
  // A link, not a copy: one content on the disk, however many tasks run it.
  expect((await stat(join(prepared.directory, 'app.sh'))).nlink).toBe(2);
});

it('DP-10 only the variables that are named get through', async () => {
  vi.stubEnv('HANDOVER_TEST_SECRET', 'not for tasks');
  const handle = await stage.run('env; echo end', { env: { GREETING: 'hello' } });
  const output = await written(handle, 'end');
  expect(output).toContain('GREETING=hello');
  expect(output).toContain(`PATH=${process.env['PATH'] ?? ''}`);
  expect(output).not.toContain('HANDOVER_TEST_SECRET');
  vi.unstubAllEnvs();
});

it('G-6 what is kept of a task has nothing of its environment', async () => {
  const handle = await stage.run('exec sleep 60', { env: { PASSWORD: 'hush' } });
  expect(await readFile(stateFile(handle.state), 'utf8')).not.toContain('hush');
  expect(JSON.stringify(handle.state)).not.toContain('hush');
});

it('DP-10 output goes to the files that the spec names, and is appended', async () => {
  const more = { stdout: 'out.txt', stderr: join(stage.host.root, 'err.txt') };
  await (await stage.run('echo one; echo bad >&2', more)).wait({});
  const handle = await stage.run('echo one; echo bad >&2', more);
  await handle.wait({});
  expect(await readFile(join(handle.state.directory, 'out.txt'), 'utf8')).toBe('one\none\n');
  expect(await readFile(join(stage.host.root, 'err.txt'), 'utf8')).toBe('bad\nbad\n');
});

it('DP-8 endpoints are the ports of the spec, also after recovery', async () => {
  const handle = await stage.run('exec sleep 60', { ports: { http: 8080 } });
  expect(handle.endpoints).toEqual({ http: { address: '127.0.0.1', port: 8080 } });
  const found = await stage.host.driver().recover(handle.state, { owner: handle.id });
  expect(found?.endpoints).toEqual(handle.endpoints);
});
