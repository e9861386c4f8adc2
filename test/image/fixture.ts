import {
  type AuthProvider,
  type HandoverEvent,
  ImageCoordinator,
  type PullOptions,
  type RemovalOptions,
  type RetentionOptions,
} from 'handover';
import { FakeClock } from 'handover/testing';
import { ScriptedSource } from './scripted-source.js';

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

export interface Fixture {
  readonly clock: FakeClock;
  readonly source: ScriptedSource;
  readonly images: ImageCoordinator;
  readonly events: HandoverEvent[];
  /** `changed:held`, `kept:image-in-use`, `lost`, `warning:abort-ignored`, … ; progress left out. */
  told(): readonly string[];
}

/** A coordinator over a scripted engine; the registry knows redis:7 as sha256:a and redis:8 as sha256:b. */
export function fixture(
  o: { auth?: AuthProvider; removal?: RemovalOptions; retention?: RetentionOptions; pull?: PullOptions } = {},
): Fixture {
  const clock = new FakeClock();
  const source = new ScriptedSource();
  source.registry.set('redis:7', 'sha256:a').set('redis:8', 'sha256:b').set('redis:latest', 'sha256:b');
  const events: HandoverEvent[] = [];
  const images = new ImageCoordinator({ source, ...o }, { clock, onEvent: (event) => void events.push(event) });
  return { clock, source, images, events, told: () => events.flatMap(tell) };
}

/** redis:7 was taken and is idle now; the calls of that are forgotten. */
export async function takenAndReleased(removal?: RemovalOptions): Promise<Fixture> {
  const all = fixture(removal === undefined ? {} : { removal });
  await (await all.images.acquire('redis:7', { owner: 'a' })).release();
  all.source.calls.length = 0;
  return all;
}

/** The calls that take something away. */
export function changes(calls: readonly string[]): readonly string[] {
  return calls.filter((call) => call.startsWith('remove'));
}

function tell(event: HandoverEvent): readonly string[] {
  if (event.type === 'image:changed') return [`changed:${event.image.state}`];
  if (event.type === 'image:kept') return [`kept:${event.reason.code}`];
  if (event.type === 'image:lost') return [`lost:${event.owners.join()}`];
  return event.type === 'warning' ? [`warning:${event.reason.code}`] : [];
}
