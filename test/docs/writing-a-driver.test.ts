import { readFile } from 'node:fs/promises';
import { describeTaskDriver } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { JobDriver, type JobSpec } from '../../examples/driver/job-driver.js';

const untilStopped = (stop: AbortSignal): Promise<void> =>
  new Promise((resolve) => stop.addEventListener('abort', () => resolve()));
const nothing = { [Symbol.asyncDispose]: async () => undefined };

const jobs = {
  v1: { prepare: async () => nothing, run: untilStopped },
  v2: { prepare: async () => nothing, run: untilStopped },
};

describeTaskDriver<JobSpec>('of the how-to', {
  runner: { describe, it },
  make: async () => new JobDriver(jobs),
  spec: (version) => ({ job: version }),
});

it('DP-11 the how-to shows the very driver', async () => {
  const read = (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
  expect(await read('docs/writing-a-driver.md')).toContain(
    `\`\`\`ts\n${await read('examples/driver/job-driver.ts')}\`\`\``,
  );
});
