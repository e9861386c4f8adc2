import { expect, it } from 'vitest';
import { engineSuite } from './harness/index.js';
import { chance } from './harness/chance.js';
import { RandomWorld } from './random-world.js';

const STEPS = 1_000;
/** How many steps are under way at once. */
const AT_ONCE = 4;
const TEST_TIMEOUT_MS = 300_000;

engineSuite('Random steps on a real engine', (engine) => {
  it(
    'IC-1 IC-15 IC-16 IC-17 the engine has what the coordinator says, and what is foreign',
    async () => {
      const luck = chance(20_241);
      const world = await RandomWorld.make(engine, luck);
      const underWay = new Set<Promise<void>>();
      for (let i = 0; i < STEPS; i++) {
        if (underWay.size === AT_ONCE) await Promise.race(underWay);
        const step: Promise<void> = world.step().finally(() => underWay.delete(step));
        underWay.add(step);
      }
      await Promise.all(underWay);
      const told = `HANDOVER_SEED=${luck.seed}: ${world.counts()}`;
      process.stdout.write(`${told}\n`);

      expect(world.unexpected, told).toEqual([]);
      await world.verifyAll();
      const missing = await world.missing();
      expect(missing, `held or foreign, and not there. ${told}\n${await world.story(missing)}`).toEqual([]);
      await world.releaseAll();
      await expect.poll(() => world.pending(), { timeout: 30_000 }).toEqual([]);
      // What was in use when its time had come is tried again minutes later: now, instead.
      const { kept } = await world.images.collect();
      const [present, wanted] = [await world.present(), world.wanted()];
      const wrong = [...present, ...wanted].filter((id) => !present.includes(id) || !wanted.includes(id));
      expect(wrong, `there or not, and should not. ${told}\n${await world.story(wrong)}`).toEqual([]);
      for (const { imageId, reason } of kept) {
        // What we lost and somebody else brought back is theirs; that it is there was looked at above.
        const why = world.inUse.includes(imageId) ? ['image-in-use', 'not-ours'] : ['not-ours'];
        expect(why).toContain(reason.code);
      }
      expect(world.unexpected).toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );
});
