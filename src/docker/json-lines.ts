/** One object of a stream. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A stream that does not hold what it must: text that is not JSON, or a line without end. */
export class CorruptStream extends Error {
  override readonly name = 'CorruptStream';
}

/** No engine writes a line near this long: whatever does is no progress stream, and is not kept in memory. */
const MAX_LINE = 1024 * 1024;

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
    // A byte 0x0A is never a part of a longer UTF-8 character: what ends with one can be decoded, all lines at once.
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > 0) {
      this.#held.push(chunk.subarray(0, end));
      this.#flush();
    }
    if (end === chunk.length) return;
    this.#held.push(chunk.subarray(end));
    this.#heldBytes += chunk.length - end;
    checkLength(this.#heldBytes);
  }

  /**
   * The stream has ended: what is left is a line too.
   *
   * @throws CorruptStream
   */
  end(): void {
    this.#flush();
  }

  #flush(): void {
    const text = Buffer.concat(this.#held).toString('utf8');
    this.#held = [];
    this.#heldBytes = 0;
    for (const line of text.split('\n')) {
      checkLength(line.length);
      if (line.startsWith('{') || line.trim() !== '') this.onObject(parse(line));
    }
  }
}

function checkLength(length: number): void {
  if (length > MAX_LINE) throw new CorruptStream(`a line of the stream is longer than ${MAX_LINE} bytes`);
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
