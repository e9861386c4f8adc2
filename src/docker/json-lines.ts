/** One object of a stream. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A stream that does not hold what it must: text that is not JSON, or a line without end. */
export class CorruptStream extends Error {
  override readonly name = 'CorruptStream';
}

/** No engine writes a line near this long: whatever does is no progress stream, and is not kept in memory. */
const MAX_LINE_BYTES = 1024 * 1024;

const NEWLINE = 0x0a;
/** Enough of a bad line to recognise what sent it. */
const SAMPLE_LENGTH = 200;

/**
 * Takes a stream of JSON objects apart, one a line, whatever its chunks are: split inside a character, several lines
 * in one, `\r\n`, blank lines, a last line without an end (IC-11). Written anew because the client's own reader drops
 * that last line, which may be the error, and throws out of reach on text that is not JSON.
 */
export class JsonLines {
  /** The start of a line whose end has not come. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;

  /** @param onObject - told of each object, in order */
  constructor(private readonly onObject: (object: JsonObject) => void) {}

  /** @throws CorruptStream; then the stream is to be given up */
  push(chunk: Uint8Array): void {
    let start = 0;
    // A byte 0x0A is never a part of a longer UTF-8 character, so lines can be cut before they are decoded.
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#hold(chunk, start, end);
      this.#flush();
      start = end + 1;
    }
    this.#hold(chunk, start, chunk.length);
  }

  /**
   * The stream has ended: what is left is a line too.
   *
   * @throws CorruptStream
   */
  end(): void {
    this.#flush();
  }

  #hold(chunk: Uint8Array, start: number, end: number): void {
    if (start === end) return;
    this.#heldBytes += end - start;
    if (this.#heldBytes > MAX_LINE_BYTES) {
      throw new CorruptStream(`a line of the stream is longer than ${MAX_LINE_BYTES} bytes`);
    }
    this.#held.push(chunk.subarray(start, end));
  }

  #flush(): void {
    const [only] = this.#held;
    if (only === undefined) return;
    const line = this.#held.length === 1 ? only : Buffer.concat(this.#held, this.#heldBytes);
    this.#held = [];
    this.#heldBytes = 0;
    const text = Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString('utf8').trim();
    if (text !== '') this.onObject(parse(text));
  }
}

function parse(text: string): JsonObject {
  const value = tryParse(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new CorruptStream(`the stream holds text that is not a JSON object: ${text.slice(0, SAMPLE_LENGTH)}`);
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
