/* `npm run demo`: one update in two orders, and what a client saw of each. `--help` tells more. */
import { type Flags, HELP, UsageError, parseFlags } from './flags.js';
import { type Update, handover, killFirst, runUpdate } from './run.js';
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
    view.begin(world);
    view.update('1. Kill first: stop the old one, fetch, start the new one');
    const before = await runUpdate(world, 'kill-first', killFirst, control.signal);
    control.signal.throwIfAborted();
    view.update('2. handover: fetch and prepare, then stop the old one and start the new one');
    const after = await runUpdate(world, 'handover', handover, control.signal);
    control.signal.throwIfAborted();
    return { before, after };
  } finally {
    await world.end();
  }
}

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
    return after.outcome === 'replaced' ? 0 : 1;
  } finally {
    view.close();
  }
}

function summary(before: Update, after: Update) {
  return {
    killFirst: { outageMs: before.outageMs, failed: before.failed },
    handover: { outageMs: after.outageMs, failed: after.failed, outcome: after.outcome },
    order: 'stop-first',
  };
}

try {
  process.exitCode = await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  if (control.signal.aborted) process.exitCode = 130;
  else if (error instanceof UsageError) {
    console.error(`${message}\nnpm run demo -- --help tells more.`);
    process.exitCode = 2;
  } else {
    console.error(error instanceof NotHere ? message : error);
    process.exitCode = 1;
  }
}
