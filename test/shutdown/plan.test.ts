import { memoryRegistrar, type RunOptions, type ShutdownHooks, ShutdownSequencer, type Registrar } from 'handover';
import { describe, expect, it } from 'vitest';
import { SERVICE } from './scripted-target.js';

const silent: Registrar = { register: async () => undefined, deregister: async () => undefined };
const hook = async (): Promise<void> => undefined;
const services = [SERVICE];

describe('budget', () => {
  it.each<{ why: string; o: RunOptions; registrar?: Registrar; hooks?: ShutdownHooks; total: number }>([
    { why: 'nothing registered: call + kill timeout + confirm', o: {}, registrar: silent, total: 30_000 },
    { why: 'services, but no registrar', o: { services }, total: 30_000 },
    { why: 'registered: deregistration and delay', o: { services }, registrar: silent, total: 40_000 },
    { why: 'a registrar that can confirm may fail to', o: { services }, registrar: memoryRegistrar(), total: 40_000 },
    { why: 'a delay of its own', o: { services, shutdownDelay: '1m' }, registrar: silent, total: 95_000 },
    { why: 'a delay without services', o: { shutdownDelay: '1m' }, total: 90_000 },
    { why: 'preStop is paid from the kill timeout', o: {}, hooks: { preStop: hook }, total: 30_000 },
    { why: 'postStop is not', o: {}, hooks: { postStop: hook }, total: 35_000 },
    { why: 'a hold', o: { services, onDeregisterError: { hold: '10m' } }, registrar: silent, total: 640_000 },
    { why: 'no grace', o: { killTimeout: 0 }, total: 25_000 },
    { why: 'no end', o: { killTimeout: 'never' }, total: Infinity },
  ])('SS-7 $total ms: $why', ({ o, registrar, hooks, total }) => {
    const sequencer = new ShutdownSequencer({}, { registrar, hooks });
    expect(sequencer.budget(o).total).toBe(total);
  });

  it('SS-7 the phases in their order, each with the longest it can take', () => {
    const env = { registrar: silent, hooks: { preStop: hook, preStopFirst: false } };
    expect(new ShutdownSequencer({ killTimeout: '20s' }, env).budget({ services }).phases).toEqual([
      { phase: 'deregister', max: 5_000 },
      { phase: 'preStop', max: 18_000 },
      { phase: 'drain', max: 5_000 },
      { phase: 'signal', max: 30_000 },
      { phase: 'kill', max: 20_000 },
      { phase: 'confirm', max: 20_000 },
      { phase: 'postStop', max: 0 },
    ]);
  });

  it.each([
    { killTimeout: '1s', max: 0, why: 'two seconds, or all of it, are kept for the signal' },
    { killTimeout: '2s', max: 0, why: 'two seconds, or all of it, are kept for the signal' },
    { killTimeout: '3s', max: 1_000, why: 'the rest is for preStop' },
    { killTimeout: 'never', max: 30_000, why: 'nothing to take it from: a bound of its own' },
  ])('SS-7 preStop has at most $max ms of a kill timeout of $killTimeout: $why', ({ killTimeout, max }) => {
    const budget = new ShutdownSequencer({ killTimeout }, { hooks: { preStop: hook } }).budget();
    expect(budget.phases.find(({ phase }) => phase === 'preStop')).toEqual({ phase: 'preStop', max });
  });

  it('G-2 the budget of a run is the one told before; what a run does not say is said by its sequencer', () => {
    const sequencer = new ShutdownSequencer({ killTimeout: '1m', shutdownDelay: '2m' });
    expect(sequencer.budget({ killTimeout: undefined }).total).toBe(60_000 + 120_000 + 25_000);
    expect(sequencer.budget({ shutdownDelay: 0 }).total).toBe(60_000 + 25_000);
  });
});
