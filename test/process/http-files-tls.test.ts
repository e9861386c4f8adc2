import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FilesBench, noise, sha256 } from './files-bench.js';
import { fixture } from './fixtures/run.js';
import { Origin } from './origin.js';

const CONTENT = noise(100_000);
const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

describe.skipIf(!hasOpenssl)(
  `HTTPS${hasOpenssl ? '' : ' (skipped: there is no openssl to make a certificate with)'}`,
  () => {
    let bench: FilesBench;
    let origin: Origin;
    let certificate: string;

    beforeEach(async () => {
      bench = await FilesBench.open();
      const key = join(bench.directory, 'key.pem');
      certificate = join(bench.directory, 'certificate.pem');
      const request = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=origin';
      const made = spawnSync('openssl', [
        ...['req', ...request.split(' '), '-addext', 'subjectAltName=IP:127.0.0.1'],
        ...['-keyout', key, '-out', certificate],
      ]);
      expect(made.status, made.stderr.toString()).toBe(0);
      origin = await Origin.open({ key: readFileSync(key), cert: readFileSync(certificate) });
    });
    afterEach(async () => {
      await origin.close();
      await bench.close();
    });

    /** A fetch by a process that trusts the origin: Node takes what to trust from its environment. */
    async function fetched(url: string): Promise<readonly string[]> {
      const child = fixture('fetcher', [join(bench.directory, 'files'), url], {
        ...process.env,
        NODE_EXTRA_CA_CERTS: certificate,
      });
      return (await text(child.stdout)).trim().split('\n');
    }

    it('IC-24 files come over HTTPS, and go on after a cut', async () => {
      const url = `${origin.ranged('/app', CONTENT, { cuts: [90_000] })}#sha256=${sha256(CONTENT)}`;
      expect(JSON.parse((await fetched(url)).at(-1)!)).toMatchObject({
        details: { reason: 'registry-unavailable' },
        retryable: true,
      });
      expect((await fetched(url)).at(-1)).toBe('done');
      expect(origin.parts).toEqual(['', 'bytes=89999- if "v1"']);
    }, 30_000);

    it('IC-24 a redirect from HTTPS to HTTP is not followed', async () => {
      const url = origin.status('/app', 302, { location: bench.origin.content('/app', 'x') });
      expect(JSON.parse((await fetched(url)).at(-1)!)).toMatchObject({
        details: { reason: 'unknown' },
        retryable: false,
        message: expect.stringContaining('never from https to http') as string,
      });
      expect(bench.origin.requests).toEqual([]);
    }, 30_000);

    it('IC-10 an origin that is not trusted is registry-unavailable, and gets no request', async () => {
      const failure = await bench.failure(origin.content('/app', 'x'));
      expect(failure).toMatchObject({ reason: 'registry-unavailable', retryable: true });
      expect(failure.message).toContain('certificate');
      expect(origin.requests).toEqual([]);
    });

    it('IC-10 an origin that does not speak TLS is registry-unavailable', async () => {
      const url = bench.origin.content('/app', 'x').replace('http:', 'https:');
      expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
    });
  },
);
