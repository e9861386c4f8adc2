import assert from 'node:assert/strict';
import { isHandoverError } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import type { ArtifactSourceSuite, SourceBench } from './source-suite.js';
import type { Check } from './suite-runner.js';

const REASON = new Error('called off by the suite');

/** Checks of an artifact source; those with hooks only when the hooks are there. */
export function sourceChecks({ alias, hanging, broken }: ArtifactSourceSuite): readonly Check<SourceBench>[] {
  return [
    ...REFERENCE_CHECKS,
    ...FETCH_CHECKS,
    ...REMOVAL_CHECKS,
    ...(alias === undefined ? [] : [aliased(alias)]),
    ...(hanging === undefined ? [] : [aborted(hanging)]),
    ...(broken === undefined ? [] : [mended(broken)]),
  ];
}

const REFERENCE_CHECKS: readonly Check<SourceBench>[] = [
  [
    'IC-13 normalise() gives one spelling, and takes it again as it is',
    async ({ source, options }) => {
      const reference = options.missing();
      const { key, repository, host, pullable } = source.normalise(reference);
      assert.equal(source.normalise(key).key, key);
      assert.deepEqual(source.normalise(reference), source.normalise(reference));
      assert.ok(repository !== '' && host !== '' && pullable);
    },
  ],
  [
    'IC-13 S4 a reference outside the grammar is refused',
    async ({ source }) => {
      for (const bad of ['', ' ', 'a b']) {
        assert.throws(
          () => source.normalise(bad),
          (error) => isHandoverError(error, 'ERR_INVALID_REFERENCE'),
        );
      }
    },
  ],
  [
    'IC-13 what can move floats',
    async (bench) => {
      assert.equal(bench.source.normalise(await bench.publish('a', 'v1')).floating, true);
    },
  ],
];

const FETCH_CHECKS: readonly Check<SourceBench>[] = [
  [
    'IC-6 find() looks locally: what was never fetched is absent',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      assert.equal(await bench.find(reference), undefined);
      assert.equal(await bench.find(bench.options.missing()), undefined);
    },
  ],
  [
    'IC-1 what was fetched is found by reference, by key and by id',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      const found = await bench.bring(reference);
      const { key } = bench.source.normalise(reference);
      assert.ok(found.references.includes(key));
      assert.equal((await bench.find(key))?.id, found.id);
      assert.equal((await bench.find(found.id))?.id, found.id);
    },
  ],
  [
    'IC-12 fetch() tells its progress, and the bytes of a phase never go back',
    async (bench) => {
      const told = await bench.fetch(await bench.publish('a', 'v1'));
      assert.ok(told.length > 0);
      for (const [i, { phase, bytes }] of told.entries()) {
        const before = told[i - 1];
        if (before?.phase === phase) assert.ok(bytes.done >= before.bytes.done);
      }
    },
  ],
  [
    'IC-10 S3 what the origin does not know ends as not-found-or-denied, once and for all, with nothing left',
    async (bench) => {
      const missing = bench.options.missing();
      await assert.rejects(
        bench.fetch(missing),
        (error) =>
          isHandoverError(error, 'ERR_PULL_FAILED') &&
          error.details.reason === 'not-found-or-denied' &&
          !error.retryable,
      );
      assert.ok(!(await bench.references()).includes(bench.source.normalise(missing).key));
    },
  ],
  [
    'G-4 fetch() with a signal that has aborted rejects with its reason and brings nothing',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      await assert.rejects(bench.fetch(reference, { signal: AbortSignal.abort(REASON) }), REASON);
      assert.equal(await bench.find(reference), undefined);
    },
  ],
  [
    'IC-2 fetching again what is there changes nothing',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      assert.equal((await bench.bring(reference)).id, (await bench.bring(reference)).id);
    },
  ],
  [
    'S28 a reference that moved means the new content after the next fetch; the old content stays',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      const old = await bench.bring(reference);
      await bench.publish('a', 'v2');
      assert.equal((await bench.find(reference))?.id, old.id);
      const moved = await bench.bring(reference);
      assert.notEqual(moved.id, old.id);
      assert.ok(!(await bench.find(old.id))?.references.includes(bench.source.normalise(reference).key));
      assert.ok((await bench.ids()).includes(old.id));
      await bench.drop(old.id);
      assert.equal((await bench.find(reference))?.id, moved.id);
    },
  ],
  [
    'IC-3 two references are fetched side by side',
    async (bench) => {
      const [a, b] = [await bench.publish('a', 'v1'), await bench.publish('b', 'v2')];
      const [foundA, foundB] = await Promise.all([bench.bring(a), bench.bring(b)]);
      assert.notEqual(foundA.id, foundB.id);
    },
  ],
  [
    'IC-3 case C6 one reference, fetched twice at the same time, is one content',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      const [first, second] = await Promise.all([bench.bring(reference), bench.bring(reference)]);
      assert.equal(first.id, second.id);
      assert.equal((await bench.ids()).filter((id) => id === first.id).length, 1);
    },
  ],
];

const REMOVAL_CHECKS: readonly Check<SourceBench>[] = [
  [
    'IC-21 list() has what is present, once',
    async (bench) => {
      const { id } = await bench.bring(await bench.publish('a', 'v1'));
      assert.equal((await bench.ids()).filter((listed) => listed === id).length, 1);
    },
  ],
  [
    'IC-17 users() of content that nobody uses is empty',
    async (bench) => {
      const { id } = await bench.bring(await bench.publish('a', 'v1'));
      assert.deepEqual(await bench.settle(bench.source.users(id, {})), []);
    },
  ],
  [
    'IC-17 S31 remove() of the last reference removes the content; again is absent',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      const { id } = await bench.bring(reference);
      assert.equal(await bench.remove(reference), 'removed');
      assert.equal(await bench.find(reference), undefined);
      assert.ok(!(await bench.ids()).includes(id));
      assert.equal(await bench.remove(reference), 'absent');
      assert.equal(await bench.find(id), undefined);
    },
  ],
  [
    'S41 what was removed can be fetched again',
    async (bench) => {
      const reference = await bench.publish('a', 'v1');
      const { id } = await bench.bring(reference);
      await bench.remove(reference);
      assert.equal((await bench.bring(reference)).id, id);
    },
  ],
];

function aliased(alias: (reference: string, name: string) => Promise<string>): Check<SourceBench> {
  return [
    'IC-2 S27 two references to one content share its id, and removing one leaves the other',
    async (bench) => {
      const first = await bench.publish('a', 'v1');
      const second = await alias(first, bench.name('b'));
      const { id } = await bench.bring(first);
      assert.equal((await bench.bring(second)).id, id);
      assert.equal(await bench.remove(first), 'untagged');
      assert.equal(await bench.find(first), undefined);
      assert.equal((await bench.find(second))?.id, id);
      assert.equal(await bench.remove(second), 'removed');
    },
  ];
}

function aborted(hanging: () => Promise<string>): Check<SourceBench> {
  return [
    'G-4 an abort in the middle of fetch() rejects with its reason and leaves nothing half there',
    async (bench) => {
      const reference = await hanging();
      const controller = new AbortController();
      const begun = deferred();
      const fetch = bench.fetch(reference, { signal: controller.signal, onProgress: () => begun.resolve() });
      await Promise.race([begun.promise, fetch]);
      controller.abort(REASON);
      await assert.rejects(fetch, REASON);
      assert.equal(await bench.find(reference), undefined);
      assert.ok(!(await bench.references()).includes(bench.source.normalise(reference).key));
    },
  ];
}

function mended(broken: NonNullable<ArtifactSourceSuite['broken']>): Check<SourceBench> {
  return [
    'IC-10 case C15 a fetch that breaks off is worth another try, leaves nothing half there, and the next one brings the whole',
    async (bench) => {
      const { reference, mend } = await broken();
      await assert.rejects(
        bench.fetch(reference),
        (error) => isHandoverError(error, 'ERR_PULL_FAILED') && error.retryable,
      );
      assert.equal(await bench.find(reference), undefined);
      assert.ok(!(await bench.references()).includes(bench.source.normalise(reference).key));
      await mend();
      assert.ok((await bench.bring(reference)).references.includes(bench.source.normalise(reference).key));
    },
  ];
}
