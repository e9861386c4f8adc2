import { ShutdownSequencer } from 'handover';
import { expect, it } from 'vitest';
import { useStage } from './stage.js';
import { written } from './tasks.js';

const stage = useStage();

it.each(['15', 'SIGTERM', 'TERM'])('SS-2 SS-5 S70 killSignal %s reaches the process', async (killSignal) => {
  const handle = await stage.run('exec sleep 60');
  const report = await new ShutdownSequencer({ killSignal, killTimeout: '5s' }).run(handle).result;
  expect(report).toMatchObject({ outcome: 'exited', warnings: [], exit: { signal: 'SIGTERM', by: 'signal' } });
});

it.each([
  ['SIGRTMIN+3', 37],
  ['SIGRTMAX', 64],
  ['SIGPOLL', 29],
])('SS-2 SS-5 S70 so does %s, for which Node has no name', async (killSignal, number) => {
  const handle = await stage.run(`trap 'exit 7' ${number}; echo ready; while :; do sleep 0.05; done`);
  await written(handle, 'ready');
  const report = await new ShutdownSequencer({ killSignal, killTimeout: '5s' }).run(handle).result;
  expect(report).toMatchObject({ outcome: 'exited', warnings: [], exit: { code: 7, by: 'signal' } });
});

it('S70 what is no signal is refused, and not sent', async () => {
  const handle = await stage.run('exec sleep 60');
  for (const name of ['SIGFOO', '32', '0', '']) {
    await expect(handle.signal(name, {})).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  }
  expect(await handle.isRunning({})).toBe(true);
});
