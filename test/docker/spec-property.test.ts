import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { FakeClock } from 'handover/testing';
import { DockerDriver, type DockerSpec } from 'handover/docker';
import { expect, it } from 'vitest';
import { createBody } from '../../src/docker/driver-body.js';
import type { ImageLeases } from '../../src/docker/driver-prestart.js';
import { specSchema } from '../../src/docker/spec-schema.js';
import { overlap } from '../../src/driver/resources.js';
import { isPlain } from '../../src/internal/is-plain.js';

const nothing = (): never => {
  throw new Error('nobody is asked');
};
const images: ImageLeases = { acquire: nothing, adopt: nothing };
const driver = new DockerDriver({ docker: { modem: { dial: nothing } }, images }, { clock: new FakeClock() });

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,5}$/);
const words = fc.array(word, { maxLength: 3 });
const textByName = fc.dictionary(
  word,
  fc.string().filter((value) => !value.includes('\0')),
);
const path = word.map((name) => `/${name}`);
const flag = fc.boolean();
const address = fc.oneof(
  fc.ipV4(),
  fc.ipV6().filter((ip) => !ip.includes('%')),
);
const port = fc.integer({ min: 1, max: 65_535 });
const size = fc.oneof(fc.integer({ min: 1 }), fc.constantFrom('1b', '64m', '2g'));
const span = fc.oneof(fc.integer({ min: 1, max: 1e9 }), fc.constantFrom('5s', '1m30s'));

/** With any of the keys. */
function some<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Partial<T>> {
  return fc.record(model, { requiredKeys: [] }) as fc.Arbitrary<Partial<T>>;
}

const ports = fc.dictionary(
  word,
  fc.record(
    { container: port, host: port, address, protocol: fc.constantFrom('tcp', 'udp', 'sctp') },
    { requiredKeys: ['container'] },
  ),
  { maxKeys: 3 },
);
const mount = fc.oneof(
  fc.record({ type: fc.constant('bind'), source: path, target: path, readOnly: flag, exclusive: flag }),
  fc.record({ type: fc.constant('volume'), source: word, target: path }),
);
const device = fc.record(
  { host: path, container: path, permissions: fc.constantFrom('r', 'rwm'), exclusive: flag },
  { requiredKeys: ['host'] },
);
const limits = fc.oneof(fc.nat(), fc.record({ soft: fc.nat(9), hard: fc.integer({ min: 9 }) }));
const health = fc.record(
  {
    test: fc.oneof(word, fc.array(word, { minLength: 1, maxLength: 3 })),
    ...{ interval: span, timeout: span, startPeriod: span, retries: port },
  },
  { requiredKeys: ['test'] },
);
/** As it comes from a wire, where -0 is 0. */
const json = fc.json().map((text): unknown => JSON.parse(JSON.stringify(JSON.parse(text))));
const raw = some({
  Tty: fc.constantFrom(true, false, null),
  Domainname: word,
  HostConfig: some({ ShmSize: fc.nat(), Sysctls: fc.dictionary(word, json), Binds: words }),
});
const FIELDS: { readonly [K in keyof Required<DockerSpec>]: fc.Arbitrary<unknown> } = {
  image: word,
  name: word.map((name) => `${name}-x`),
  entrypoint: words,
  command: fc.array(word, { minLength: 1, maxLength: 3 }),
  ...{ env: textByName, labels: textByName, user: word, workingDir: path, hostname: word, init: flag, readOnly: flag },
  stopSignal: fc.constantFrom('SIGTERM', 'INT', '15', 'RTMIN+3'),
  tmpfs: fc.dictionary(path, word),
  mounts: fc.array(mount, { maxLength: 3 }),
  devices: fc.array(device, { maxLength: 3 }),
  capabilities: some({ add: words, drop: words }),
  resources: some({
    ...{ memory: size, memorySwap: size, cpus: fc.double({ min: 0.001, max: 512, noNaN: true }), pids: port },
    ulimits: fc.dictionary(fc.constantFrom('nofile', 'nproc', 'core'), limits),
  }),
  pull: fc.constantFrom('if-absent', 'always', 'never', 'if-stale'),
  ports,
  networks: fc.oneof(
    fc.constantFrom('host', 'none'),
    fc.dictionary(word, some({ aliases: words, address }), { minKeys: 1, maxKeys: 3 }),
  ),
  extraHosts: fc.dictionary(word, fc.oneof(address, fc.constant('host-gateway'))),
  healthcheck: fc.oneof(fc.constant('none'), health),
  log: fc.record({ driver: word, options: fc.dictionary(word, word) }, { requiredKeys: ['driver'] }),
  create: raw,
};

/** What `parse()` takes; what it refuses of what was made is left out. */
const accepted = fc.record(FIELDS, { requiredKeys: ['image'] }).filter((spec) => {
  try {
    driver.parse(spec);
    return true;
  } catch {
    return false;
  }
});

/** Whether all of the one is in the other: objects key by key, anything else as a whole; `null` says nothing. */
function holds(all: unknown, part: unknown): boolean {
  if (part === null || part === undefined) return true;
  if (!isPlain(part)) return isDeepStrictEqual(all, part);
  return Object.entries(part).every(([key, value]) => holds((all as Record<string, unknown> | null)?.[key], value));
}

it('every field is made', () => {
  expect(Object.keys(FIELDS).sort()).toEqual(Object.keys(specSchema.entries).sort());
});

it('G-2 what was parsed is parsed to the same, also after a way as JSON', () => {
  fc.assert(
    fc.property(accepted, (spec) => {
      const parsed = driver.parse(spec);
      expect(driver.parse(parsed)).toEqual(parsed);
      expect(driver.parse(JSON.parse(JSON.stringify(parsed)))).toEqual(parsed);
    }),
  );
});

it('a body can be made of whatever parse() takes: JSON, with nothing of the raw options lost, and what it is for', () => {
  fc.assert(
    fc.property(accepted, (spec) => {
      const parsed = driver.parse(spec);
      const body = JSON.parse(JSON.stringify(createBody(parsed, 'sha256:1', { 'handover.task': 'web' }))) as object;
      expect(body).toMatchObject({
        ...{ Image: 'sha256:1', Labels: { ...parsed.labels, 'handover.task': 'web' } },
        HostConfig: { RestartPolicy: { Name: 'no' } },
      });
      expect(holds(body, parsed.create)).toBe(true);
    }),
  );
});

it('DP-7 what a spec holds alone overlaps with itself', () => {
  fc.assert(
    fc.property(accepted, (spec) => {
      const held = driver.exclusive(driver.parse(spec));
      expect(overlap(held, held)).toEqual(held);
    }),
  );
});
