/** A request as the routes get it. */
export interface FakeRequest {
  readonly method: string;
  /** Decoded, without the version prefix and the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** The parsed JSON body; `{}` without one. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** What a route answers with. */
export interface FakeAnswer {
  readonly status: number;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent one JSON line each, as the engine streams a pull. */
  readonly lines?: readonly unknown[];
  /** Sent as they come. */
  readonly pieces?: AsyncIterable<Buffer>;
  /** Called once all lines were sent: what the stream brought is there now. */
  readonly landed?: () => void;
  /** Sent as JSON when it resolves; the headers go out at once. */
  readonly later?: Promise<unknown>;
}

/** A refusal, with the engine's status and words. */
export class EngineProblem extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}
