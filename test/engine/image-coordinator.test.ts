import Docker from 'dockerode';
import { type HandoverEvent, ImageCoordinator, type RemovalOptions, type RetentionOptions } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { expect, it, onTestFinished } from 'vitest';
import { engineSuite, type RealEngine, uniqueName } from './harness/index.js';

interface World {
  readonly images: ImageCoordinator<DockerImage>;
  readonly sequence: () => readonly string[];
  /** Resolves with the first event, of the past too, that `pick` wants. */
  seen(pick: (event: HandoverEvent) => boolean): Promise<HandoverEvent>;
}

async function world(
  engine: RealEngine,
  removal: RemovalOptions = { delay: 0 },
  retention: RetentionOptions = {},
): Promise<World> {
  const proxy = await engine.engineProxy();
  const events: HandoverEvent[] = [];
  const watchers = new Set<() => void>();
  const images = new ImageCoordinator(
    { source: dockerImages(new Docker({ socketPath: proxy.socketPath })), removal, retention },
    {
      onEvent: (event) => {
        events.push(event);
        for (const look of watchers) look();
      },
    },
  );
  onTestFinished(() => images.close());
  const seen: World['seen'] = (pick) =>
    new Promise((resolve) => {
      const look = (): void => {
        const found = events.find(pick);
        if (found === undefined) return;
        watchers.delete(look);
        resolve(found);
      };
      watchers.add(look);
      look();
    });
  return { images, seen, sequence: () => proxy.sequence };
}

const absent = (id: string) => (event: HandoverEvent) =>
  event.type === 'image:changed' && event.image.imageId === id && event.image.state === 'absent';

const kept = (id: string) => (event: HandoverEvent) => event.type === 'image:kept' && event.imageId === id;

async function present({ docker }: RealEngine, id: string): Promise<boolean> {
  return docker
    .getImage(id)
    .inspect()
    .then(
      () => true,
      () => false,
    );
}

async function push(engine: RealEngine, tag = 'v1', name = uniqueName('coord'), version = tag) {
  const image = await engine.pushImage({ name, tag, version });
  onTestFinished(async () => {
    await engine.docker
      .getImage(image.id)
      .remove({ force: true })
      .catch(() => {});
  });
  return { ...image, reference: `localhost:${engine.registry.port}/${name}:${tag}` };
}

/** Somebody else pulls it. */
async function byHand({ docker }: RealEngine, reference: string): Promise<void> {
  const stream = await docker.pull(reference);
  await new Promise<void>((resolve, reject) => {
    docker.modem.followProgress(stream, (error) => (error === null ? resolve() : reject(error)));
  });
}

engineSuite('ImageCoordinator on a real engine', (engine) => {
  it('IC-3 IC-15 IC-17 many callers, one pull; after the last release it is gone', async () => {
    const { images, seen, sequence } = await world(engine);
    const { id, digest, reference } = await push(engine);
    const leases = await Promise.all(['a', 'b', 'c'].map((owner) => images.acquire(reference, { owner })));
    expect(leases.map(({ imageId }) => imageId)).toEqual([id, id, id]);
    expect(leases[0]!.runnable).toContain(digest);
    expect(sequence().filter((call) => call.includes('/images/create'))).toHaveLength(1);
    for (const lease of leases) await lease.release();
    await seen(absent(id));
    expect(await present(engine, id)).toBe(false);
  });

  it('S30 case C29 a container that was only created keeps its image; it goes when that is gone', async () => {
    const { images, seen } = await world(engine);
    const { id, reference } = await push(engine);
    const lease = await images.acquire(reference, { owner: 'a' });
    const name = uniqueName('keeps');
    const container = await engine.docker.createContainer({ name, Image: lease.runnable });
    onTestFinished(() => container.remove({ force: true }).catch(() => {}));
    await lease.release();
    expect(await seen(kept(id))).toMatchObject({ reason: { code: 'image-in-use', message: `In use by ${name}` } });
    expect(await present(engine, id)).toBe(true);
    await container.remove();
    const again = await images.acquire(reference, { owner: 'b' });
    await again.release();
    await seen(absent(id));
    expect(await present(engine, id)).toBe(false);
  });

  it('S28 a tag that moved while it was held: the old content goes by its digest, the new one stays', async () => {
    const { images, seen } = await world(engine);
    const first = await push(engine);
    const old = await images.acquire(first.reference, { owner: 'a' });
    const second = await push(engine, 'v1', first.name, 'v2');
    const young = await images.acquire(first.reference, { owner: 'b', policy: 'always' });
    expect([old.imageId, young.imageId]).toEqual([first.id, second.id]);
    await old.release();
    await seen(absent(first.id));
    expect([await present(engine, first.id), await present(engine, second.id)]).toEqual([false, true]);
    await young.verify();
  });

  it('S27 case C31 a name that somebody else gave stays, and so does the content', async () => {
    const { images, seen } = await world(engine);
    const { id, name, reference } = await push(engine);
    const lease = await images.acquire(reference, { owner: 'a' });
    await engine.docker.getImage(reference).tag({ repo: name, tag: 'theirs' });
    await lease.release();
    expect(await seen(kept(id))).toMatchObject({ reason: { code: 'not-ours' } });
    const { RepoTags } = await engine.docker.getImage(id).inspect();
    expect(RepoTags).toEqual([`${name}:theirs`]);
  });

  it('case C17 an image for another platform is refused, and what came is removed', async () => {
    const { images, seen } = await world(engine);
    const { id, reference } = await push(engine);
    await expect(images.acquire(reference, { owner: 'a', platform: 'linux/s390x' })).rejects.toMatchObject({
      details: { reason: 'no-platform' },
    });
    await seen(absent(id));
    expect(await present(engine, id)).toBe(false);
  });

  it('IC-18 S29 S36 case C31 collect: pins, the last one, and what containers use stay; foreign images are not looked at', async () => {
    const [versions, pinned] = [uniqueName('app'), uniqueName('base')];
    const foreign = await push(engine, 'v1', uniqueName('foreign'));
    await byHand(engine, foreign.reference);
    const { images } = await world(
      engine,
      { delay: 'never' },
      { keepLast: 1, pin: [`localhost:${engine.registry.port}/${pinned}:v1`] },
    );
    const pushed = [];
    const taken = ['v1', 'v2', 'v3', 'v4'].map((version) => [versions, version] as const);
    for (const [name, version] of [[pinned, 'v1'] as const, [pinned, 'v2'] as const, ...taken]) {
      const image = await push(engine, version, name);
      const lease = await images.acquire(image.reference, { owner: 'a' });
      pushed.push({ ...image, runnable: lease.runnable });
      await lease.release();
    }
    const [base1, base2, v1, v2, v3, v4] = pushed.map(({ id }) => id) as [
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    const name = uniqueName('uses');
    const container = await engine.docker.createContainer({ name, Image: pushed[2]!.runnable });
    onTestFinished(() => container.remove({ force: true }).catch(() => {}));
    await container.start();
    await container.kill();
    await expect.poll(async () => (await container.inspect()).State.Status).toBe('exited');

    const foreseen = await images.collect({ dryRun: true });
    const { removed, kept } = await images.collect();
    expect([...removed].sort()).toEqual([v2, v3].sort());
    expect(Object.fromEntries(kept.map(({ imageId, reason }) => [imageId, reason.code]))).toEqual({
      [base1]: 'pinned',
      [base2]: 'keep-last',
      [v1]: 'image-in-use',
      [v4]: 'keep-last',
    });
    expect(kept.find(({ imageId }) => imageId === v1)?.reason.message).toBe(`In use by ${name}`);
    expect([...foreseen.removed].sort()).toEqual([...removed].sort());
    const here = await Promise.all([base1, base2, v1, v2, v3, v4, foreign.id].map((id) => present(engine, id)));
    expect(here).toEqual([true, true, true, false, false, true, true]);

    await container.remove();
    expect((await images.collect()).removed).toEqual([v1]);
    expect(await present(engine, v1)).toBe(false);
  });

  it("IC-18 IC-17 scope 'any': a dry run says what collect then does, of all that is there, and strangers' containers keep theirs", async () => {
    const [idle, used] = [await push(engine, 'v1', uniqueName('idle')), await push(engine, 'v1', uniqueName('used'))];
    for (const { reference } of [idle, used]) await byHand(engine, reference);
    const name = uniqueName('uses');
    const container = await engine.docker.createContainer({ name, Image: used.reference });
    onTestFinished(() => container.remove({ force: true }).catch(() => {}));
    // What else is there is not ours to touch.
    const others = new RegExp(`^(?!.*/(${idle.name}|${used.name})[:@])`);
    const { images } = await world(engine, { delay: 'never', scope: 'any' }, { pin: [others] });
    const codes = async (dryRun: boolean) => {
      const { removed, kept } = await images.collect({ dryRun });
      const codeOf = (id: string) => kept.find(({ imageId }) => imageId === id)?.reason.code;
      return [removed.includes(idle.id) ? 'gone' : codeOf(idle.id), codeOf(used.id)];
    };
    expect(await codes(true)).toEqual(['gone', 'image-in-use']);
    expect(await present(engine, idle.id)).toBe(true);
    expect(await codes(false)).toEqual(['gone', 'image-in-use']);
    expect([await present(engine, idle.id), await present(engine, used.id)]).toEqual([false, true]);
  });

  it('IC-19 S39 a prefetch ends by itself, and what it brought goes', async () => {
    const { images, seen } = await world(engine);
    const { id, reference } = await push(engine);
    const lease = await images.prefetch(reference, { owner: 'a', ttl: '1h' });
    expect(await present(engine, id)).toBe(true);
    lease.renew(50);
    await seen(absent(id));
    expect(await present(engine, id)).toBe(false);
  });

  it('S41 DP-4 what somebody deleted by force comes back as the same content', async () => {
    const { images, seen } = await world(engine, { enabled: false });
    const { id, reference } = await push(engine);
    const lease = await images.acquire(reference, { owner: 'a' });
    await engine.docker.getImage(id).remove({ force: true });
    await lease.verify();
    await seen((event) => event.type === 'image:lost');
    expect(await present(engine, id)).toBe(true);
  });
});
