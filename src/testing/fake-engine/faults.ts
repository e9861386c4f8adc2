/** Which calls a fault falls on. */
export interface FakeFaultMatch {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  /** Tested against the decoded path with its query, without the version prefix. */
  readonly path: RegExp;
  /** How many calls it falls on; `Infinity` = all. Default 1. */
  readonly times?: number;
  /** How many matching calls pass first. Default 0. */
  readonly after?: number;
}

/** What goes wrong with a call; several keys together are possible where they make sense. */
export interface FakeFault {
  /** Milliseconds on the engine's clock before the work is done. */
  readonly delay?: number;
  /** Answered in place of doing the work. */
  readonly status?: number;
  /** The engine's words for `status`. */
  readonly message?: string;
  /** The connection is cut at once: `request` = the work is never done, `answer` = it is done nevertheless. */
  readonly lose?: 'request' | 'answer';
  /** Nothing is answered, ever: without (`request`) or with (`answer`) the work being done. */
  readonly silence?: 'request' | 'answer';
  /** Sent in place of the answer's body, as it is: text that is not JSON, a line without an end. The work is done. */
  readonly garbage?: string;
  /** The last line of a streamed answer, in place of its success. */
  readonly inStreamError?: string;
  /** The connection is cut after so many bytes of a streamed answer; what it was to bring does not arrive. */
  readonly cutAfter?: number;
  /** Nothing comes any more after so many bytes of a streamed answer. */
  readonly silentAfter?: number;
}

interface Armed {
  readonly match: FakeFaultMatch;
  readonly fault: FakeFault;
  skip: number;
  left: number;
}

/** The faults that are armed, oldest first. */
export class Faults {
  readonly #armed: Armed[] = [];

  add(match: FakeFaultMatch, fault: FakeFault): void {
    this.#armed.push({ match, fault, skip: match.after ?? 0, left: match.times ?? 1 });
  }

  /** The fault of this call, if there is one; it is used up by that. */
  take(method: string, pathAndQuery: string): FakeFault | undefined {
    for (const armed of this.#armed) {
      const { match } = armed;
      const hit = (match.method ?? method) === method && match.path.test(pathAndQuery);
      if (!hit || armed.left === 0) continue;
      if (armed.skip > 0) {
        armed.skip -= 1;
        continue;
      }
      armed.left -= 1;
      return armed.fault;
    }
    return undefined;
  }
}
