/* `npm run demo`: one update in two orders, and what a client saw of each. `--help` tells more. */
import { isHandoverError } from 'handover';
import { type Flags, HELP, parseFlags } from './flags.js';
import { type Update, handover, killFirst, runUpdate } from './run.js';
import { UsageError } from './usage-error.js';
import { TextView, type View, silent } from './view.js';
import { NotHere, dockerWorld } from './world-docker.js';
import { processWorld } from './world-process.js';

const control = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  // A second one must not end the clearing away.
  process.on(signal, () => control.abort(new Error(`Interrupted by ${signal}`)));
}
// Nobody reads any more: what was started is cleared away all the same.
process.stdout.on('error', () => control.abort(new Error('The output was closed')));

async function updates(flags: Flags, view: View): Promise<{ readonly before: Update; readonly after: Update }> {
  const world = flags.kind === 'docker' ? await dockerWorld(flags, view.onEvent) : await processWorld(view.onEvent);
  try {
    control.signal.throwIfAborted();
    const run = { signal: control.signal, clearing: () => view.clearing() };
    view.begin(world);
    view.update('1. Kill first: stop the old one, fetch, start the new one');
    const before = await runUpdate(world, { ...run, name: 'kill-first', way: killFirst });
    control.signal.throwIfAborted();
    view.update('2. handover: fetch and prepare, then stop the old one and start the new one');
    const after = await runUpdate(world, { ...run, name: 'handover', way: handover });
    control.signal.throwIfAborted();
    return { before, after };
  } finally {
    await world.end();
  }
}

/** By what came of the second update; `--help` lists them. */
const EXIT_CODES: Readonly<Record<string, number>> = { replaced: 0, 'kept-previous': 3 };
const NOT_SERVED = 4;

async function main(): Promise<number> {
  const flags = parseFlags(process.argv.slice(2));
  if (flags === 'help') {
    console.log(HELP);
    return 0;
  }
  const view = flags.json ? silent : new TextView(process.stdout);
  try {
    const { before, after } = await updates(flags, view);
    view.end([
      { name: 'kill first', update: before },
      { name: 'handover', update: after },
    ]);
    if (flags.json) console.log(JSON.stringify(summary(before, after)));
    return EXIT_CODES[after.outcome] ?? NOT_SERVED;
  } finally {
    view.close();
  }
}

function summary(before: Update, after: Update) {
  return { killFirst: facts(before), handover: facts(after), order: 'stop-first' };
}

function facts({ outageMs, failed, outcome, cause }: Update) {
  return { outageMs, failed, outcome, cause };
}

try {
  process.exitCode = await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  if (control.signal.aborted) process.exitCode = 130;
  else if (error instanceof UsageError) {
    console.error(`${message} (npm run demo -- --help tells more)`);
    process.exitCode = 2;
  } else {
    // What the library says is for a person; anything else is a fault of the demo.
    console.error(error instanceof NotHere || isHandoverError(error) ? message : error);
    process.exitCode = 1;
  }
}
