import type { LogChunk } from '../driver/driver.js';
import { EngineFault } from './engine-fault.js';

/** A piece of the engine's stream of both outputs. */
export interface Frame {
  readonly stream: LogChunk['stream'];
  readonly bytes: Buffer;
}

/** Before each piece: one byte for the stream, three of nothing, four for the length. */
const HEADER = 8;
/** 0 is the input, which an engine gives as output when a terminal echoes it. */
const STREAMS = ['stdout', 'stdout', 'stderr'] as const;

/**
 * Takes an engine's multiplexed stream apart; a piece is given when all of it has come. What an engine has to say of an
 * error of its own comes as another kind of piece.
 *
 * @param operation - completes "cannot …", for messages
 * @throws EngineFault
 */
export async function* framesOf(source: AsyncIterable<Buffer>, operation: string): AsyncGenerator<Frame, void> {
  let held: Buffer = Buffer.alloc(0);
  for await (const chunk of source) {
    held = Buffer.concat([held, chunk]);
    for (let end = endOf(held); end !== undefined; end = endOf(held)) {
      const bytes = held.subarray(HEADER, end);
      const stream = STREAMS[held.readUInt8(0)];
      held = held.subarray(end);
      if (stream === undefined) throw new EngineFault('status', operation, bytes.toString('utf8').trim());
      yield { stream, bytes };
    }
  }
  if (held.length > 0) throw new EngineFault('lost', operation, 'the stream ended in the middle of a piece');
}

/** @returns where the first piece ends; `undefined` when not all of it is there */
function endOf(held: Buffer): number | undefined {
  if (held.length < HEADER) return undefined;
  const end = HEADER + held.readUInt32BE(4);
  return end <= held.length ? end : undefined;
}
