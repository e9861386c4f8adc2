import type { Opt } from '../call.js';
import { invalidOption } from '../errors.js';

/** What a conformance suite needs of a test runner; those of vitest, jest, mocha and `node:test` fit. */
export interface SuiteRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

/** The options that every conformance suite takes. */
export type SuiteOptions = Opt<{
  /** Default: the global `describe` and `it`. Runners that have none are handed over: `import { describe, it } from 'vitest'`. */
  runner: SuiteRunner;
  /** After each check: takes down what `make()` set up. */
  close: () => Promise<void>;
}>;

/** One check: its name starts with the rule it proves. */
export type Check<Bench> = readonly [name: string, check: (bench: Bench) => Promise<void>];

/**
 * Registers the checks with the test runner.
 *
 * @throws HandoverError `ERR_INVALID_OPTION` when there is no runner
 */
export function registerChecks<Bench>(
  name: string,
  o: SuiteOptions,
  checks: readonly Check<Bench>[],
  run: (check: (bench: Bench) => Promise<void>) => Promise<void>,
): void {
  const runner = o.runner ?? (globalThis as Partial<SuiteRunner>);
  const { describe, it } = runner;
  if (typeof describe !== 'function' || typeof it !== 'function') {
    throw invalidOption('runner', "is missing, and there are no global describe() and it(): give your test runner's");
  }
  describe(name, () => {
    for (const [title, check] of checks) {
      it(title, async () => {
        try {
          await run(check);
        } finally {
          await o.close?.();
        }
      });
    }
  });
}
