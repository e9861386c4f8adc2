/** How much of a command's output is kept, as `ExecResult` says. */
export const EXEC_OUTPUT_BYTES = 65_536;

/** The end of an output: the last so many bytes of it. */
export class Tail {
  #held: Buffer = Buffer.alloc(0);

  constructor(private readonly bytes: number) {}

  add(chunk: Uint8Array): void {
    this.#held = Buffer.concat([this.#held, chunk]).subarray(-this.bytes);
  }

  /** As UTF-8; what was cut in the middle of a character begins with the next one. */
  get text(): string {
    let start = 0;
    while (start < 3 && ((this.#held[start] ?? 0) & 0xc0) === 0x80) start += 1;
    return this.#held.toString('utf8', start);
  }
}
