/** A real part that the run has, or the reason why it does not. */
export type Part<T> = ({ readonly available: true } & T) | { readonly available: false; readonly reason: string };

export interface Engine {
  readonly socketPath: string;
  readonly version: string;
}

export interface Registry {
  readonly port: number;
}

/** What one test run has: decided once, handed to every test file as plain data. */
export interface Parts {
  /** Names what this run makes; the label {@link RUN_LABEL} of every image, and so of its containers, has this value. */
  readonly runId: string;
  /** Temporary, gone with the run. */
  readonly folder: string;
  readonly engine: Part<Engine>;
  /** The registry behind the proxies, on 127.0.0.1. */
  readonly registry: Part<Registry>;
  /** A mirror of it, for those who log in. */
  readonly guarded: Part<Registry>;
  /** The compiled test app. */
  readonly app: Part<{ readonly path: string }>;
}

/** The label by which the sweep at the end finds what the run left in an engine that is not its own. */
export const RUN_LABEL = 'handover.test.run';

/** A part that was looked for, and how to end what was started for it. */
export interface Started<T> {
  readonly part: Part<T>;
  end(): Promise<void>;
}

export const absent = (reason: string): { readonly available: false; readonly reason: string } => ({
  available: false,
  reason,
});
