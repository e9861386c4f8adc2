import Docker from 'dockerode';
import { type HandoverEvent, ImageCoordinator, type RemovalOptions } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { expect, it, onTestFinished } from 'vitest';
import { engineSuite, type RealEngine, uniqueName } from './harness/index.js';

interface World {
  readonly images: ImageCoordinator<DockerImage>;
  readonly sequence: () => readonly string[];
  /** Resolves with the first event, of the past too, that `pick` wants. */
  seen(pick: (event: HandoverEvent) => boolean): Promise<HandoverEvent>;
}

async function world(engine: RealEngine, removal: RemovalOptions = { delay: 0 }): Promise<World> {
  const proxy = await engine.engineProxy();
  const events: HandoverEvent[] = [];
  const watchers = new Set<() => void>();
  const images = new ImageCoordinator(
    { source: dockerImages(new Docker({ socketPath: proxy.socketPath })), removal },
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
