import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileApp } from './app-binary.js';
import { startEngine } from './engine.js';
import { absent, type Part, type Parts, type Started } from './parts.js';
import { startGuardedRegistry, startRegistry } from './registry.js';

export interface StartedParts {
  readonly parts: Parts;
  end(): Promise<void>;
}

/**
 * Starts the real parts of a run in a temporary folder.
 *
 * @throws Error when a part is absent or does not start, and HANDOVER_REQUIRE_ENGINE=1
 */
export async function startParts(): Promise<StartedParts> {
  const runId = randomBytes(4).toString('hex');
  const folder = mkdtempSync(join(tmpdir(), 'handover-engine-'));
  const ends: (() => Promise<void>)[] = [];
  const end = async (): Promise<void> => {
    for (const step of ends.reverse()) await step();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const app = compileApp();
    const registry = await orAbsent(startRegistry(join(folder, 'registry')));
    ends.push(registry.end);
    const guarded = await orAbsent(startGuardedRegistry(join(folder, 'guarded'), registry.part));
    ends.push(guarded.end);
    const engine = await orAbsent(startEngine(join(folder, 'engine'), runId));
    ends.push(engine.end);
    const parts = { runId, folder, engine: engine.part, registry: registry.part, guarded: guarded.part, app };
    if (process.env['HANDOVER_REQUIRE_ENGINE'] === '1') {
      demandAll([parts.engine, parts.registry, parts.guarded, parts.app]);
    }
    return { parts, end };
  } catch (cause) {
    await end();
    throw cause;
  }
}

/** A part that does not start says why with the tail of its log, and then counts as absent. */
async function orAbsent<T>(starting: Promise<Started<T>>): Promise<Started<T>> {
  try {
    return await starting;
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    process.stderr.write(`${text}\n`);
    return { part: absent(text.split('\n')[0] ?? text), end: async () => {} };
  }
}

function demandAll(parts: readonly Part<object>[]): void {
  const reasons = parts.flatMap((part) => (part.available ? [] : [part.reason]));
  if (reasons.length > 0) throw new Error(`HANDOVER_REQUIRE_ENGINE=1, but ${reasons.join('; ')}`);
}
