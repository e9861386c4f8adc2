import { parseFamiliarName } from '@swimlane/docker-reference';
import fc from 'fast-check';
import { isHandoverError } from 'handover';
import { describe, expect, it } from 'vitest';
import {
  canonicalName,
  familiarName,
  isImageId,
  normaliseReference,
  parseReference,
} from '../../src/docker/reference.js';

const HEX = '0123456789abcdef'.repeat(4);
const SHA = `sha256:${HEX}`;

describe('IC-13 the distribution grammar', () => {
  it.each([
    ['redis', 'docker.io/library/redis:latest', 'redis'],
    ['redis:7', 'docker.io/library/redis:7', 'redis'],
    ['library/redis:7', 'docker.io/library/redis:7', 'redis'],
    ['docker.io/redis:7', 'docker.io/library/redis:7', 'redis'],
    ['docker.io/library/redis:7', 'docker.io/library/redis:7', 'redis'],
    ['index.docker.io/redis:7', 'docker.io/library/redis:7', 'redis'],
    ['index.docker.io/library/redis:7', 'docker.io/library/redis:7', 'redis'],
    ['me/app', 'docker.io/me/app:latest', 'me/app'],
    ['docker.io/me/app:v1', 'docker.io/me/app:v1', 'me/app'],
    ['docker.io/library/a/b:1', 'docker.io/library/a/b:1', 'docker.io/library/a/b'],
    ['docker.io/a.b/c', 'docker.io/a.b/c:latest', 'docker.io/a.b/c'],
    ['localhost/app', 'localhost/app:latest', 'localhost/app'],
    ['localhost:5000/chef/inspec:1.46.3', 'localhost:5000/chef/inspec:1.46.3', 'localhost:5000/chef/inspec'],
    [
      '192.168.253.131:10051/mabo/python',
      '192.168.253.131:10051/mabo/python:latest',
      '192.168.253.131:10051/mabo/python',
    ],
    ['[::1]:5000/a', '[::1]:5000/a:latest', '[::1]:5000/a'],
    ['[2001:db8::1]/a/b:v2', '[2001:db8::1]/a/b:v2', '[2001:db8::1]/a/b'],
    ['host:5000', 'docker.io/library/host:5000', 'host'],
    ['host:5000/a', 'host:5000/a:latest', 'host:5000/a'],
    ['HOST/app', 'HOST/app:latest', 'HOST/app'],
    ['registry.example.com/a/b/c/d:x_Y.9-z', 'registry.example.com/a/b/c/d:x_Y.9-z', 'registry.example.com/a/b/c/d'],
    ['a_b/c__d/e-f--g.h', 'docker.io/a_b/c__d/e-f--g.h:latest', 'a_b/c__d/e-f--g.h'],
    ['xn--n3h.com/app', 'xn--n3h.com/app:latest', 'xn--n3h.com/app'],
    [`busybox@${SHA}`, `docker.io/library/busybox@${SHA}`, 'busybox'],
    [`golang:1.4.2@${SHA}`, `docker.io/library/golang@${SHA}`, 'golang'],
    [`localhost:5000/a@${SHA}`, `localhost:5000/a@${SHA}`, 'localhost:5000/a'],
    [`${HEX}:v1`, `docker.io/library/${HEX}:v1`, HEX],
    [`a@sha512:${HEX}${HEX}`, `docker.io/library/a@sha512:${HEX}${HEX}`, 'a'],
  ])('S5 %s → %s (%s)', (text, key, familiar) => {
    expect(normaliseReference(text).key).toBe(key);
    expect(familiarName(parseReference(text))).toBe(familiar);
    expect(normaliseReference(key).key).toBe(key);
  });

  it.each([
    ['redis', { floating: true, latest: true }],
    ['redis:latest', { floating: true, latest: true }],
    ['redis:7', { floating: true, latest: false }],
    [`redis@${SHA}`, { floating: false, latest: false }],
    [`redis:latest@${SHA}`, { floating: false, latest: false }],
  ])('IC-6 %s: %o', (text, expected) => {
    const repository = 'docker.io/library/redis';
    expect(normaliseReference(text)).toMatchObject({ ...expected, repository, host: 'docker.io', pullable: true });
  });

  it('case C20 a digest beside a tag is the same content as the digest alone; the tag is kept for people', () => {
    expect(normaliseReference(`golang:1.4.2@${SHA}`)).toEqual(normaliseReference(`golang@${SHA}`));
    expect(parseReference(`golang:1.4.2@${SHA}`)).toMatchObject({ tag: '1.4.2', digest: SHA });
  });

  it('case C21 a digest is not cut at its colon', () => {
    expect(parseReference(`busybox@${SHA}`)).toEqual({
      host: 'docker.io',
      name: 'docker.io/library/busybox',
      tag: undefined,
      digest: SHA,
    });
  });

  it('case C22 a port is no tag', () => {
    expect(parseReference('192.168.253.131:10051/mabo/python')).toMatchObject({
      host: '192.168.253.131:10051',
      tag: 'latest',
    });
  });

  it('case C23 a full image id can be looked up, never pulled', () => {
    expect(isImageId(SHA)).toBe(true);
    expect(normaliseReference(SHA)).toEqual({
      ...{ key: SHA, repository: SHA, host: '' },
      ...{ pullable: false, floating: false, latest: false },
    });
  });

  it.each([
    ['', 'empty'],
    [' redis', 'space'],
    ['redis ', 'space'],
    ['redis\n', 'space'],
    ['Redis', 'lower case'],
    ['me/App:v1', 'lower case'],
    ['http://registry.example.com/app', 'scheme'],
    ['https://index.docker.io/redis:7', 'scheme'],
    ['docker://redis', 'scheme'],
    [HEX, 'image id'],
    ['redis:', 'tag'],
    [':7', 'name'],
    ['redis:-x', 'tag'],
    ['redis:a b', 'space'],
    [`redis:${'a'.repeat(129)}`, 'tag'],
    ['redis@', 'digest'],
    ['redis@sha256:abc', 'digest'],
    [`redis@${SHA.toUpperCase()}`, 'digest'],
    [`redis@md5:${HEX}`, 'digest'],
    [`redis@${SHA}@${SHA}`, 'digest'],
    [`@${SHA}`, 'name'],
    ['/redis', 'name'],
    ['redis/', 'name'],
    ['a//b', 'name'],
    ['a/../b', 'name'],
    ['-a', 'name'],
    ['a-', 'name'],
    ['a___b', 'name'],
    ['a..b/', 'host'],
    ['host:port/a', 'host'],
    ['host:/a', 'host'],
    ['[::1/a', 'host'],
    ['[::1]:x/a', 'host'],
    // The original grammar takes this one, as a name without any host; nothing can be pulled by that.
    ['ex_ample.com/a', 'host'],
    ['-x.com/a', 'host'],
    ['größe', 'name'],
    ['a'.repeat(300), '255'],
    [`a/${'b/'.repeat(200)}c`, '255'],
    ['x'.repeat(100_000), 'characters'],
  ])('S4 refused: "%s" (%s)', (text, word) => {
    const error = (() => {
      try {
        return normaliseReference(text);
      } catch (reason) {
        return reason;
      }
    })();
    expect(isHandoverError(error, 'ERR_INVALID_REFERENCE')).toBe(true);
    expect((error as Error).message).toContain(word);
  });
});

describe('IC-13 properties', () => {
  const word = fc.stringMatching(/^[a-z0-9]{1,6}$/);
  const component = fc
    .array(fc.tuple(word, fc.constantFrom('.', '_', '__', '-', '--')), { minLength: 1, maxLength: 3 })
    .map((parts) => parts.map(([text, separator], i) => (i === 0 ? text : separator + text)).join(''));
  const host = fc.oneof(
    fc.constantFrom('localhost', 'docker.io', 'index.docker.io', '127.0.0.1', '[::1]', '[fe80::1]'),
    fc.tuple(word, word).map((labels) => labels.join('.')),
  );
  const address = fc
    .tuple(host, fc.option(fc.integer({ min: 1, max: 65_535 })))
    .map(([name, port]) => (port === null ? name : `${name}:${port}`));
  const tag = fc.stringMatching(/^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,12}$/);
  const digest = fc.stringMatching(/^[a-f0-9]{64}$/).map((hex) => `sha256:${hex}`);
  const reference = fc
    .tuple(fc.option(address), fc.array(component, { minLength: 1, maxLength: 4 }), fc.option(tag), fc.option(digest))
    .map(([at, [first = '', ...rest], version, hash]) => {
      // Without an address the first part must not look like one.
      const name = at === null ? [first.replaceAll('.', '0'), ...rest] : [at, first, ...rest];
      return name.join('/') + (version === null ? '' : `:${version}`) + (hash === null ? '' : `@${hash}`);
    });

  it('the key of a key is the key, and the familiar name means the same', () => {
    fc.assert(
      fc.property(reference, (text) => {
        const { key } = normaliseReference(text);
        expect(normaliseReference(key).key).toBe(key);
        const parsed = parseReference(text);
        const version = parsed.digest === undefined ? `:${parsed.tag}` : `@${parsed.digest}`;
        expect(normaliseReference(`${familiarName(parsed)}${version}`).key).toBe(key);
      }),
      { numRuns: 1_000 },
    );
  });

  it('any text is either taken or refused with the typed error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a-zA-Z0-9:/@._[\]-]{0,40}$/)), (text) => {
        try {
          normaliseReference(text);
        } catch (error) {
          if (!isHandoverError(error, 'ERR_INVALID_REFERENCE')) throw error;
        }
      }),
      { numRuns: 2_000 },
    );
  });

  /** What the other implementation makes of it, in our spelling; `undefined` = refused. */
  function oracle(text: string): string | undefined {
    try {
      const { domain, repository, tag, digest } = parseFamiliarName(text);
      const name = `${domain}/${repository}`;
      if (digest !== undefined) return `${name}@${digest}`;
      return `${name}:${tag ?? 'latest'}`;
    } catch {
      return undefined;
    }
  }

  it('agrees with another implementation on whatever both can read', () => {
    let compared = 0;
    fc.assert(
      fc.property(reference, (text) => {
        const expected = oracle(text);
        // It does not know addresses in brackets.
        if (text.startsWith('[')) return;
        compared++;
        expect(canonicalName(parseReference(text))).toBe(expected);
      }),
      { numRuns: 1_000 },
    );
    expect(compared).toBeGreaterThan(500);
  });
});
