import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import * as v from 'valibot';
import type { Call } from '../../call.js';
import type { Clock } from '../../clock.js';
import { formatDuration } from '../../duration.js';
import { HandoverError } from '../../errors.js';
import type { Credentials } from '../../image/types.js';
import { type Deferred, deferred } from '../../internal/deferred.js';
import { onAbort, withDeadline } from '../../internal/signals.js';

/** The rest of a program's name; with a slash in it, a file anywhere would be run. */
const NAME = /^[A-Za-z0-9._-]+$/;

/** The largest tokens in use are a few KiB. */
const MAX_OUTPUT = 64 * 1024;

/** The words that the protocol prescribes for "none", on standard output, with a failure as exit code. */
const NOT_FOUND = /credentials not found/i;

/** In place of a name: what comes with it is a token, not a password. */
const TOKEN = '<token>';

const ANSWER = v.object({ Username: v.string(), Secret: v.string() });

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/**
 * Asks a credential helper, by the protocol of github.com/docker/docker-credential-helpers, for what it keeps of a
 * registry. It runs without a shell, in a process group of its own; when it is late or called off, all of the group is
 * killed. Nothing that it writes gets into an error: it may be a secret (G-6).
 *
 * @param name - of the helper: `pass` means the program `docker-credential-pass`
 * @param server - the registry's address
 * @param o.timeout - how long it may take, in ms
 * @returns `undefined` = it keeps none
 * @throws HandoverError `ERR_DRIVER`; or the signal's reason, exactly
 */
export async function askHelper(
  name: string,
  server: string,
  { clock, timeout, signal }: Call & { readonly clock: Clock; readonly timeout: number },
): Promise<Credentials | undefined> {
  const program = `docker-credential-${name}`;
  if (!NAME.test(name)) {
    throw failed(
      program,
      server,
      'a helper has a name of letters, digits, ".", "_" and "-"; correct the configuration',
    );
  }
  const late = (): Error =>
    failed(program, server, `it did not answer within ${formatDuration(timeout)} and was killed`, { retryable: true });
  const ended = await withDeadline(clock, timeout, signal, late, (bounded) => run(program, server, bounded));
  if (ended.code === 0) return read(ended.output, program, server);
  if (NOT_FOUND.test(ended.output)) return undefined;
  const how = ended.code === null ? `was ended by ${String(ended.signal)}` : `ended with code ${ended.code}`;
  throw failed(program, server, `it ${how}; run "echo ${server} | ${program} get" to see why`, { retryable: true });
}

type Helper = ChildProcessByStdio<Writable, Readable, null>;

async function run(program: string, server: string, signal: AbortSignal): Promise<Ended> {
  const helper = start(program, server);
  const ended = deferred<Ended>();
  helper.on('error', (cause) => ended.reject(notStarted(program, server, cause)));
  // Not before: without a process there may be no streams either.
  helper.on('spawn', () => converse(helper, program, server, ended));
  const dispose = onAbort(signal, () => kill(helper));
  try {
    return await ended.promise;
  } finally {
    dispose();
  }
}

function start(program: string, server: string): Helper {
  try {
    return spawn(program, ['get'], { detached: true, stdio: ['pipe', 'pipe', 'ignore'] });
  } catch (cause) {
    // A link in a circle, for one, is told by a throw and not by an event.
    throw notStarted(program, server, cause as NodeJS.ErrnoException);
  }
}

function converse(helper: Helper, program: string, server: string, ended: Deferred<Ended>): void {
  const chunks: Buffer[] = [];
  let size = 0;
  helper.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length;
    chunks.push(chunk);
    if (size <= MAX_OUTPUT) return;
    kill(helper);
    ended.reject(failed(program, server, `it wrote more than ${MAX_OUTPUT} bytes and was killed`));
  });
  helper.on('close', (code, signal) => ended.resolve({ code, signal, output: Buffer.concat(chunks).toString('utf8') }));
  // One that does not read what it is asked is judged by its answer.
  helper.stdin.on('error', () => undefined);
  helper.stdin.end(server);
}

function kill(helper: Helper): void {
  if (helper.pid === undefined) return;
  try {
    process.kill(-helper.pid, 'SIGKILL');
  } catch {
    // Nobody is left in the group.
  }
  // Whoever has left the group may keep the other end open for ever.
  helper.stdout.destroy();
}

function read(output: string, program: string, server: string): Credentials | undefined {
  const answer = v.safeParse(v.pipe(v.string(), v.parseJson(), ANSWER), output);
  if (!answer.success) throw failed(program, server, 'its answer is not the JSON of a credential helper');
  const { Username: username, Secret: secret } = answer.output;
  if (username === '' && secret === '') return undefined;
  if (username === '' || secret === '') throw failed(program, server, 'its answer has a name or a secret, not both');
  return username === TOKEN ? { identityToken: secret } : { username, password: secret };
}

function notStarted(program: string, server: string, cause: NodeJS.ErrnoException): HandoverError<'ERR_DRIVER'> {
  const problem = cause.code === 'ENOENT' ? 'there is no such program in PATH; install it' : cause.message;
  return failed(program, server, problem, { cause });
}

function failed(
  program: string,
  server: string,
  problem: string,
  o: { readonly retryable?: boolean; readonly cause?: Error } = {},
): HandoverError<'ERR_DRIVER'> {
  return new HandoverError('ERR_DRIVER', `No credentials for ${server} from ${program}: ${problem}`, {
    details: { driver: program, operation: 'get', registry: server },
    ...o,
  });
}
