import type { Duration } from 'handover';
import { describe, expect, it } from 'vitest';
import { DurableWorld } from '../model/durable-world.js';
import type { Life } from './lives.js';

type Death = { readonly n: number; readonly written: boolean };

/** A day of one process: pulls, shared and moved names, strangers' content, leases taken and let go, removals. */
async function day(world: DurableWorld): Promise<void> {
  const { life, lives } = world;
  const { clock } = lives;
  const take = async (name: string, owner: string, policy?: 'always'): Promise<void> => {
    world.took(await life.acquire(name, owner, { policy }), life);
  };
  const release = (name: string, owner: string): void => {
    for (const claim of world.claims) {
      if (claim.owner !== owner || claim.reference !== name) continue;
      world.claims.delete(claim);
      void claim.lease?.release();
    }
  };
  const steps: readonly (Duration | (() => unknown))[] = [
    () => life.images.recover(() => true),
    () => take('redis:7', 'web'),
    () => Promise.all([take('redis:7', 'db'), take('redis:8', 'db'), take('own:1', 'web')]),
    () => release('redis:7', 'web'),
    () => take('own:1', 'db', 'always'),
    '30s',
    () => lives.source.registry.set('redis:8', 'sha256:c'),
    () => take('redis:8', 'web', 'always'),
    () => release('redis:8', 'db'),
    () => release('own:1', 'web'),
    '1m',
    () => take('redis:latest', 'web'),
    () => release('redis:latest', 'web'),
    '2m',
    () => release('own:1', 'db'),
    '2m',
    () => life.images.prefetch('lib:1', { owner: 'later', ttl: '1m' }),
    '5m',
  ];
  for (const step of steps) {
    if (!world.alive) return;
    await (typeof step === 'function' ? Promise.race([step(), life.mortal.dead]) : clock.advance(step));
  }
}

function make(): DurableWorld {
  const world = new DurableWorld({ removal: { delay: '1m' } });
  world.lives.source.registry.set('own:1', 'sha256:f').set('lib:1', 'sha256:l');
  world.strangerPuts('own:1', 'sha256:f');
  return world;
}

/** The next process: who is alive takes its leases over, the rest goes; it may die as well. */
async function recover(world: DurableWorld, isLive: (owner: string) => boolean, death?: Death): Promise<void> {
  world.revive();
  for (const claim of world.claims) if (!isLive(claim.owner)) world.claims.delete(claim);
  const life: Life = world.life;
  if (death !== undefined) life.mortal.killAtBatch(death.n, death);
  const work = async (): Promise<void> => {
    await life.images.recover(isLive);
    await world.adoptAll();
  };
  await Promise.race([work(), life.mortal.dead]);
  await world.lives.clock.advance('10m');
}

async function end(world: DurableWorld): Promise<void> {
  await recover(world, () => false);
  await world.lives.clock.advance('1h');
  expect(world.broken).toEqual([]);
  expect([...world.lives.source.names.keys()]).toEqual(['own:1', 'own@sha256:f']);
  expect(await world.lives.stored()).toEqual({});
  await world.lives.clock.until(world.life.images.close());
  expect(world.lives.clock.pending).toBe(0);
}

describe('IC-21 a crash at every write', () => {
  for (const written of [false, true]) {
    it(`nothing held is lost, nothing foreign deleted, nothing left behind (the write ${written ? 'was' : 'was not'} made)`, async () => {
      let deaths = 0;
      for (let n = 0; ; n += 1) {
        const world = make();
        world.life.mortal.killAtBatch(n, { written });
        await day(world);
        const died = !world.alive;
        world.kill();
        await world.lives.clock.advance('20s');
        await recover(world, (owner) => owner === 'db');
        await end(world);
        if (!died) break;
        deaths += 1;
      }
      expect(deaths).toBeGreaterThan(15);
    });

    it(`nor when the next process dies as well (${written ? 'written' : 'not written'})`, async () => {
      let deaths = 0;
      for (let n = 0; ; n += 1) {
        let died = false;
        for (let m = 0; m < 4; m += 1) {
          const world = make();
          world.life.mortal.killAtBatch(n, { written: !written });
          await day(world);
          died = !world.alive;
          world.kill();
          await recover(world, (owner) => owner === 'db', { n: m, written });
          if (!world.alive) deaths += 1;
          world.kill();
          await recover(world, (owner) => owner === 'db');
          await end(world);
        }
        if (!died) break;
      }
      expect(deaths).toBeGreaterThan(20);
    }, 60_000);
  }
});
