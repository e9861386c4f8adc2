import Docker from 'dockerode';
import { HandoverError, ImageCoordinator } from 'handover';
import { dockerImages } from 'handover/docker';
import { FakeClock, memoryStore } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { fixture } from './fixture.js';
import { failure } from './logins.js';

/** As an engine's adapter tells that it could not act. */
function down(retryable = true): HandoverError<'ERR_DRIVER'> {
  const details = { driver: 'docker', operation: 'inspect' };
  return new HandoverError('ERR_DRIVER', 'no engine takes the connection', { details, retryable });
}

const unavailable = {
  code: 'ERR_PULL_FAILED',
  details: { reason: 'engine-unavailable' },
  retryable: true,
  message: expect.stringContaining('no engine takes the connection') as string,
};

describe('IC-10 an engine that cannot be asked is engine-unavailable, whatever its adapter throws', () => {
  it('IC-10 acquire, prefetch, verify and adopt', async () => {
    const { images, source } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.before = () => {
      throw down();
    };
    const held = { owner: 'b', reference: 'redis:7', imageId: lease.imageId };
    expect(await failure(images.acquire('redis:7', { owner: 'b' }))).toMatchObject(unavailable);
    expect(await failure(images.acquire('redis:7', { owner: 'b', policy: 'never' }))).toMatchObject(unavailable);
    expect(await failure(images.prefetch('redis:7', { owner: 'b', ttl: '1h' }))).toMatchObject(unavailable);
    expect(await failure(lease.verify())).toMatchObject(unavailable);
    expect(await failure(images.adopt(held))).toMatchObject(unavailable);
  });

  it('IC-10 a pull, with its attempts', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 2 } });
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) throw down();
    };
    const error = await clock.until(failure(images.acquire('redis:7', { owner: 'a' })));
    expect(error).toMatchObject({ ...unavailable, details: { reason: 'engine-unavailable', attempts: 2 } });
  });

  it('IC-10 what the engine refuses for good stays so', async () => {
    const { images, source } = fixture();
    source.before = () => {
      throw down(false);
    };
    expect(await failure(images.acquire('redis:7', { owner: 'a' }))).toMatchObject({
      ...unavailable,
      retryable: false,
    });
  });

  it('IC-21 recover, where it looks for one reference', async () => {
    const { source, clock, images } = fixture();
    const store = memoryStore();
    await images.close();
    const first = new ImageCoordinator({ source }, { clock, store });
    await first.acquire('redis:7', { owner: 'a' });
    await first.close();
    source.wipe('sha256:a');
    source.before = () => {
      throw down();
    };
    const second = new ImageCoordinator({ source }, { clock, store });
    expect(await failure(second.recover(() => true))).toMatchObject(unavailable);
  });

  it('IC-10 a Docker engine that is not there: retryable, and a caller with a timeout waits for it', async () => {
    const clock = new FakeClock();
    const docker = new Docker({ socketPath: '/nowhere/docker.sock' });
    const images = new ImageCoordinator({ source: dockerImages(docker, { clock }) }, { clock });
    for (const policy of ['if-absent', 'always', 'never', 'if-stale'] as const) {
      const error = await clock.until(failure(images.acquire('app:v1', { owner: 'a', policy })));
      expect(error).toMatchObject({
        code: 'ERR_PULL_FAILED',
        details: { reason: 'engine-unavailable' },
        retryable: true,
      });
    }
    const late = await clock.until(failure(images.acquire('app:v1', { owner: 'a', timeout: '1m' })));
    expect(late).toMatchObject({
      details: { reason: 'timed-out' },
      cause: { details: { reason: 'engine-unavailable' } },
    });
    await clock.until(images.close());
  });
});
