import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import type { ExecResult } from '../driver/driver.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import { EXEC_OUTPUT_BYTES, Tail } from '../internal/tail.js';
import type { Containers } from './driver-containers.js';
import { framesOf } from './frames.js';

/** The engine notes the exit a moment after the output ends; a program may also close its output and go on. */
const LOOK_AGAIN: BackoffOptions = { first: 20, max: 1_000, jitter: 'none' };

/** Runs a command in a container that runs, and waits for its end. */
export async function execIn(
  containers: Containers,
  clock: Clock,
  id: string,
  argv: readonly string[],
  call: Call,
): Promise<ExecResult> {
  const exec = await containers.createExec(id, argv, call);
  const output = new Tail(EXEC_OUTPUT_BYTES);
  const body = await containers.startExec(id, exec, call);
  for await (const { bytes } of framesOf(body, `run a command in container ${id}`)) output.add(bytes);
  for (let looks = 1; ; looks++) {
    const code = await containers.execCode(id, exec, call);
    if (code !== undefined) return { code, output: output.text };
    await sleep(clock, backoff(LOOK_AGAIN, looks, clock), call);
  }
}
