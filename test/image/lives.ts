import {
  type AcquireOptions,
  type HandoverEvent,
  ImageCoordinator,
  type ImageLease,
  type PullOptions,
  type RemovalOptions,
  type RetentionOptions,
  type StateStore,
} from 'handover';
import { FakeClock, memoryStore, mortal } from 'handover/testing';
import { ScriptedSource } from './scripted-source.js';

export type Settings = { removal?: RemovalOptions; retention?: RetentionOptions; pull?: PullOptions };

/** One process: a coordinator until it is killed or closed. */
export interface Life {
  readonly images: ImageCoordinator;
  readonly events: readonly HandoverEvent[];
  readonly mortal: ReturnType<typeof mortal>;
  acquire(reference: string, owner: string, o?: Partial<AcquireOptions>): Promise<ImageLease>;
  /** `changed:held`, `kept:image-in-use`, `lost:web`, `warning:store-failed`, … */
  told(): readonly string[];
}

/** Processes, one after another, over one scripted engine, one store and one clock. */
export class Lives {
  readonly clock = new FakeClock();
  readonly source = new ScriptedSource();
  /** Of the next life. */
  store: StateStore;
  readonly #settings: Settings;

  constructor(settings: Settings = {}, store: StateStore = memoryStore()) {
    this.#settings = settings;
    this.store = store;
    this.source.registry.set('redis:7', 'sha256:a').set('redis:8', 'sha256:b').set('redis:latest', 'sha256:b');
  }

  begin(settings: Settings = this.#settings): Life {
    const events: HandoverEvent[] = [];
    const { clock, source, store } = this;
    const life = mortal({ clock, source, store, onEvent: (event: HandoverEvent) => void events.push(event) });
    const images = new ImageCoordinator({ source: life.env.source, ...settings }, life.env);
    return {
      ...{ images, events, mortal: life },
      acquire: (reference, owner, o) => images.acquire(reference, { owner, ...o }),
      told: () => events.flatMap(tell),
    };
  }

  /** What is stored, by what follows `image/scripted/`. */
  async stored(): Promise<Readonly<Record<string, unknown>>> {
    const entries = await this.store.list('image/scripted/');
    return Object.fromEntries(entries.map(([key, value]) => [key.slice('image/scripted/'.length), value]));
  }

  /** The owners in the store, by image id. */
  async holders(): Promise<Readonly<Record<string, readonly string[]>>> {
    const stored = Object.entries(await this.stored()).filter(([key]) => key.startsWith('content/'));
    return Object.fromEntries(
      stored.map(([key, value]) => [
        key.slice('content/'.length),
        (value as { leases: readonly { owner: string }[] }).leases.map(({ owner }) => owner),
      ]),
    );
  }
}

/** A store whose writes can be made to wait or fail. */
export function moody(inner: StateStore = memoryStore()) {
  const state = { mood: async (): Promise<void> => undefined };
  const store: StateStore = {
    async batch(ops) {
      await state.mood();
      await inner.batch(ops);
    },
    list: (prefix) => inner.list(prefix),
  };
  const broken = async (): Promise<never> => {
    throw new Error('disk on fire');
  };
  return { store, state, break: () => (state.mood = broken), mend: () => (state.mood = async () => undefined) };
}

function tell(event: HandoverEvent): readonly string[] {
  if (event.type === 'image:changed') return [`changed:${event.image.state}`];
  if (event.type === 'image:kept') return [`kept:${event.reason.code}`];
  if (event.type === 'image:lost') return [`lost:${event.imageId}:${event.owners.join()}`];
  return event.type === 'warning' ? [`warning:${event.reason.code}`] : [];
}
