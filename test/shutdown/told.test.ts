import { ShutdownSequencer } from 'handover';
import { describe, expect, it } from 'vitest';
import { shape, slow, Stage } from './stage.js';

describe('detach', () => {
  it.each([500, 1_100, 4_000, 8_000, 10_305])(
    'G-4 SS-14 at %i ms: nothing more is sent, nothing is left',
    async (at) => {
      const stage = new Stage({
        target: { exits: { SIGKILL: 60_000 }, disarm: ['ok'] },
        registrar: { deregister: [300] },
        hooks: { preStop: 1_000, cancelled: 'ok', postStop: 'ok' },
      });
      const run = stage.run();
      await stage.clock.advance(at);
      const before = stage.acts.length;
      await stage.sequencer.detach();
      expect((await run.result).outcome).toBe('detached');
      stage.target.dispose();
      expect(stage.clock.pending).toBe(0);
      await stage.clock.advance('1h');
      expect(stage.acts).toHaveLength(before);
      expect(stage.sequencer.running('web-1')).toBeUndefined();
    },
  );

  it('SS-14 a background deregistration is let go of too; a new stop is refused', async () => {
    const stage = new Stage({ registrar: { deregister: ['reject'] } });
    await stage.stop();
    expect(stage.clock.pending).toBe(1);
    await stage.sequencer.detach();
    expect(stage.clock.pending).toBe(0);
    expect(() => stage.run()).toThrow(expect.objectContaining({ code: 'ERR_DETACHED' }));
  });

  it('SS-9 a stop that is let go of while it is called off: cancel says too-late', async () => {
    const stage = new Stage({ hooks: { preStop: 1_000, cancelled: 'hang' } });
    const run = stage.run();
    await stage.clock.advance(500);
    const answer = run.cancel();
    await stage.clock.advance(500);
    await stage.sequencer.detach();
    expect(await answer).toBe('too-late');
    expect((await run.result).outcome).toBe('detached');
    expect(stage.clock.pending).toBe(0);
  });
});

describe('what is told', () => {
  it('G-7 G-9 each phase is told once, when it can be read, with what is waited for and until when', async () => {
    const stage = slow();
    const seen: unknown[] = [];
    const run = stage.run();
    stage.sequencer.on('shutdown:phase', ({ id, phase, wait, at }) => {
      expect(run.phase).toBe(phase);
      expect(run.wait).toEqual(wait);
      seen.push([id, phase, wait?.for, wait && wait.until! - at]);
    });
    await stage.clock.until(run.result);
    expect(seen).toEqual([
      ['web-1', 'preStop', 'exit', 3_000],
      ['web-1', 'deregister', 'deregister', 5_000],
      ['web-1', 'drain', 'drain', 5_000],
      ['web-1', 'signal', 'exit', 4_000],
      ['web-1', 'kill', 'exit', 15_000],
      ['web-1', 'confirm', 'exit', 15_000],
      ['web-1', 'postStop', undefined, null],
    ]);
    expect(stage.events.at(-1)).toMatchObject({ type: 'shutdown:ended', report: { outcome: 'forced' } });
  });

  it('SS-12 the report is JSON, with the reason, wall starts and durations that add up', async () => {
    const stage = slow();
    const start = stage.clock.wall();
    const report = await stage.stop({ reason: 'operator' });
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
    expect(report.reason).toBe('operator');
    expect(shape(report)).toEqual([
      'preStop ok 1000',
      'deregister ok 300',
      'drain ok 5000',
      'signal timeout 4000',
      'kill ok 0',
      'confirm ok 10',
      'postStop ok 0',
    ]);
    expect(report.phases.map(({ at }) => at - start)).toEqual([0, 1_000, 1_300, 6_300, 10_300, 10_300, 10_310]);
  });

  it('G-2 G-8 bad input is refused before anything is touched', () => {
    const stage = new Stage();
    const path = (run: () => unknown): unknown => {
      try {
        run();
        return 'accepted';
      } catch (error) {
        return (error as { details: { path: string } }).details.path;
      }
    };
    expect(path(() => stage.run({ killTimeout: '5' }))).toBe('killTimeout');
    expect(path(() => stage.run({ killSignal: 'SIG TERM' }))).toBe('killSignal');
    for (const killSignal of ['SIGFOO', 'SIGTERM ', '0', '65', 'SIGRTMIN3', 'constructor']) {
      expect(path(() => stage.run({ killSignal }))).toBe('killSignal');
    }
    expect(path(() => stage.sequencer.run(stage.target, null as never))).toBe('(options)');
    expect(path(() => stage.sequencer.budget(null as never))).toBe('(options)');
    expect(path(() => new ShutdownSequencer(null as never))).toBe('(options)');
    expect(path(() => new ShutdownSequencer({}, null as never))).toBe('env');
    const target = Object.assign(Object.create(stage.target) as object, { disarm: 5 });
    expect(path(() => stage.sequencer.run(target as never))).toBe('target.disarm');
    expect(path(() => stage.run({ killSignal: '' }))).toBe('killSignal');
    expect(path(() => stage.run({ shutdownDelay: 'never' }))).toBe('shutdownDelay');
    expect(path(() => stage.run({ onDeregisterError: 'retry' as never }))).toBe('onDeregisterError');
    expect(path(() => stage.run({ onDeregisterError: { hold: -1 } }))).toBe('onDeregisterError.hold');
    expect(path(() => stage.run({ ladder: [] } as never))).toBe('ladder');
    expect(path(() => new ShutdownSequencer({ confirmTimeout: Number.NaN }))).toBe('confirmTimeout');
    expect(path(() => new ShutdownSequencer({ services: [] } as never))).toBe('services');
    expect(path(() => stage.sequencer.run({ id: 'x' } as never))).toBe('target');
    expect(path(() => stage.sequencer.run(undefined as never))).toBe('target.id');
    expect(stage.log).toEqual([]);
  });

  it('C64 the timers of a background deregistration do not keep the process alive; those of the stop do', async () => {
    const stage = new Stage({ registrar: { deregister: ['reject'] } });
    const kept: boolean[] = [];
    const timer = stage.clock.timer.bind(stage.clock);
    stage.clock.timer = (ms: number, fire: () => void, o?: { readonly keepAlive?: boolean }) => {
      kept.push(o?.keepAlive ?? true);
      return timer(ms, fire);
    };
    await stage.stop();
    expect(kept.length).toBeGreaterThan(4);
    await stage.clock.advance('1m');
    kept.length = 0;
    await stage.clock.advance('10m');
    // Each round arms one for the call in flight, which is awaited by the work itself, and one to sleep.
    expect(kept.filter((keepAlive) => !keepAlive).length).toBeGreaterThan(10);
    expect(kept.filter(Boolean).length).toBe(kept.length / 2);
    await stage.sequencer.detach();
  });
});
