import { describe, expect, it } from 'vitest';
import { SERVICE } from './scripted-target.js';
import { after, shape, slow, Stage } from './stage.js';

describe('cancel', () => {
  it.each([
    { at: 500, during: 'preStop', acts: ['0 preStop', '500 cancelled'] },
    {
      at: 1_100,
      during: 'deregister',
      acts: ['0 preStop', '1000 deregister', '1100 cancelled', '1300 deregistered', '1300 register', '1300 registered'],
    },
    {
      at: 4_000,
      during: 'drain',
      acts: ['0 preStop', '1000 deregister', '1300 deregistered', '4000 cancelled', '4000 register', '4000 registered'],
    },
  ])('SS-9 S67 during $during: undone, registered as before, no signal', async ({ at, acts }) => {
    const stage = slow();
    const run = stage.run();
    await stage.clock.advance(at);
    const answer = run.cancel();
    const again = run.cancel();
    expect(await stage.clock.until(answer)).toBe('cancelled');
    expect(await again).toBe('cancelled');
    expect(stage.acts).toEqual(acts);
    expect((await run.result).outcome).toBe('cancelled');
    expect(await run.cancel()).toBe('cancelled');
    expect([...stage.registrar!.held]).toEqual([SERVICE.id]);
    expect(stage.target.running).toBe(true);
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-9 S67 after the first signal it is too late, and says so at once', async () => {
    const stage = slow();
    const run = stage.run();
    await stage.clock.advance(7_000);
    expect(await run.cancel()).toBe('too-late');
    expect((await stage.clock.until(run.result)).outcome).toBe('forced');
    expect(await run.cancel()).toBe('too-late');
  });

  it('SS-9 too late at once when the target has ended', async () => {
    const stage = new Stage({ target: { exitAt: 1_000 }, registrar: {}, hooks: { postStop: 3_000 } });
    const run = stage.run();
    await stage.clock.advance(2_000);
    expect(run.phase).toBe('postStop');
    // Nothing moves the clock here: an answer that waits for the end would never come.
    expect(await run.cancel()).toBe('too-late');
    await stage.clock.until(run.result);
  });

  it('SS-9 the cancelled hook is for a preStop that ran', async () => {
    const stage = new Stage({
      registrar: { deregister: [300] },
      hooks: { preStop: 'ok', cancelled: 'ok' },
      preStopFirst: false,
    });
    const run = stage.run();
    await stage.clock.advance(100);
    expect(await stage.clock.until(run.cancel())).toBe('cancelled');
    expect(stage.acts).toEqual(['0 deregister', '300 deregistered', '300 register', '300 registered']);
  });

  it('SS-9 too late also while the call of the signal hangs', async () => {
    const stage = new Stage({ target: { signal: ['hang'], exits: { SIGTERM: 1_000 } } });
    const run = stage.run();
    await stage.clock.advance(10);
    expect(await run.cancel()).toBe('too-late');
    await stage.clock.until(run.result);
  });

  it.each(['not awaited', 'awaited'] as const)(
    'SS-9 AL-3 cancel inside disarm, %s: rearmed, no signal, no dead lock',
    async (how) => {
      const answers: unknown[] = [];
      const stage: Stage = new Stage({
        registrar: {},
        target: {
          disarm: ['ok'],
          onDisarm: () => {
            const answer = stage.sequencer
              .running('web-1')!
              .cancel()
              .then((value) => answers.push(value));
            return how === 'awaited' ? answer.then(() => undefined) : undefined;
          },
        },
      });
      const run = stage.run();
      const report = await stage.clock.until(run.result);
      await stage.clock.advance(0);
      expect(report.outcome).toBe('cancelled');
      expect(answers).toEqual(['cancelled']);
      const end = how === 'awaited' ? 7_000 : 5_000;
      expect(stage.acts).toEqual([
        '0 deregister',
        '0 deregistered',
        '5000 disarm',
        `${end} rearm`,
        `${end} register`,
        `${end} registered`,
      ]);
      expect(stage.clock.pending).toBe(0);
    },
  );

  it('SS-9 cancel when the event of the signal phase is told: nothing has been sent yet', async () => {
    const stage = slow();
    const run = stage.run();
    stage.sequencer.on('shutdown:phase', ({ phase }) => {
      if (phase === 'signal') void run.cancel();
    });
    expect((await stage.clock.until(run.result)).outcome).toBe('cancelled');
    expect(stage.acts.filter((line) => /signal|kill|disarm|rearm/.test(line))).toEqual([]);
  });

  it.each(['5s', 0])(
    'SS-9 RO-1 killTimeout %s, cancelled any number of turns after the disarm: never told so once something was sent',
    async (killTimeout) => {
      const outcomes = new Set<string>();
      for (let turns = 0; turns < 30; turns++) {
        const answers: Promise<string>[] = [];
        const stage: Stage = new Stage({
          target: {
            exits: { SIGKILL: 10 },
            disarm: ['ok'],
            onDisarm: () => void after(turns, () => answers.push(run.cancel())),
          },
          registrar: {},
        });
        const run = stage.run({ shutdownDelay: 0, killTimeout });
        const { outcome } = await stage.clock.until(run.result);
        const sent = stage.acts.some((line) => / (signal SIGTERM|kill)$/.test(line));
        expect([turns, outcome, await answers[0]]).toEqual([
          turns,
          ...(sent ? ['forced', 'too-late'] : ['cancelled', 'cancelled']),
        ]);
        outcomes.add(outcome);
      }
      expect([...outcomes]).toEqual(['cancelled', 'forced']);
    },
  );

  it('SS-9 cancelled any number of turns after the look: the cancelled hook runs only if preStop ran', async () => {
    const told = new Set<string>();
    for (let turns = 0; turns < 30; turns++) {
      const stage = new Stage({ target: { exits: {} }, hooks: { preStop: 'ok', cancelled: 'ok' } });
      const { target } = stage;
      const look = target.isRunning.bind(target);
      target.isRunning = async (call) => {
        const answer = await look(call);
        void after(turns, () => void run.cancel());
        return answer;
      };
      const run = stage.run();
      await stage.clock.until(run.result);
      const hooks = stage.acts.map((line) => line.split(' ')[1]).filter((name) => !/signal|kill/.test(String(name)));
      told.add(hooks.join());
    }
    expect([...told].sort()).toEqual(['', 'preStop', 'preStop,cancelled']);
  });

  it('SS-9 a registry that does not answer: cancelled with a warning, registered in the background', async () => {
    const stage = new Stage({ registrar: { register: [...Array<'reject'>(12).fill('reject'), 'ok'] } });
    const run = stage.run();
    await stage.clock.advance(2_000);
    expect(await stage.clock.until(run.cancel())).toBe('cancelled');
    expect((await run.result).warnings.map(({ code }) => code)).toEqual(['register-late']);
    expect(stage.registrar!.held.size).toBe(0);
    await stage.clock.advance('1h');
    expect(stage.registrar!.held.size).toBe(1);
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-9 SS-12 a deregistration that was taken back before it was answered is nothing to warn of', async () => {
    const stage = new Stage({ target: { exits: {} }, registrar: { deregister: ['deaf'] } });
    const run = stage.run();
    await stage.clock.advance('1s');
    expect(await stage.clock.until(run.cancel())).toBe('cancelled');
    await stage.clock.advance('1m');
    expect((await run.result).warnings.map(({ code }) => code)).not.toContain('deregister-failed');
    expect(stage.registrar?.held.has(SERVICE.id)).toBe(true);
  });

  it('SS-6 SS-9 a target that exits while it is restored: not registered again, the stop goes on to its end', async () => {
    const stage = new Stage({ registrar: {}, hooks: { preStop: 'ok', cancelled: 2_000, postStop: 'ok' } });
    const run = stage.run();
    await stage.clock.advance(1_000);
    const answer = run.cancel();
    await stage.clock.advance(1_000);
    stage.target.exit();
    const report = await stage.clock.until(run.result);
    expect(report.outcome).toBe('exited');
    expect(await answer).toBe('too-late');
    expect(stage.registrar!.held.size).toBe(0);
    expect(stage.acts.at(-1)).toBe('2000 postStop');
  });

  it('SS-6 SS-9 a target that exits while it is restored is then taken off the registry', async () => {
    const stage = new Stage({ registrar: {}, hooks: { preStop: 2_000, cancelled: 2_000 } });
    const run = stage.run();
    await stage.clock.advance(1_000);
    void run.cancel();
    await stage.clock.advance(500);
    stage.target.exit();
    const report = await stage.clock.until(run.result);
    expect(stage.acts).toEqual(['0 preStop', '1000 cancelled', '1500 deregister', '1500 deregistered']);
    expect(shape(report)).toContain('deregister ok 0');
  });

  it('SS-6 SS-9 a target that exits while it is registered again is taken off again', async () => {
    const stage = new Stage({ registrar: { register: [1_000] } });
    const run = stage.run();
    await stage.clock.advance(1_000);
    void run.cancel();
    await stage.clock.advance(500);
    stage.target.exit();
    expect((await stage.clock.until(run.result)).outcome).toBe('exited');
    expect(stage.registrar!.held.size).toBe(0);
    expect(stage.acts.at(-1)).toBe('2000 deregistered');
  });
});
