import { crc32 } from 'node:zlib';

/** Hexadecimal digits of the checksum before a value. */
const DIGITS = 8;

/** As bytes, so that keys are ordered as UTF-8 and every one that is text has its place. */
export function keyBytes(key: string): Buffer {
  return Buffer.from(key);
}

/** A value as it is kept: file systems do not tell of bits that have turned over, so each value has a checksum. */
export function encode(key: string, json: string): string {
  return checksum(key, json) + json;
}

/**
 * The JSON that was encoded under the key.
 *
 * @returns `undefined` when it is not what was written
 */
export function decode(key: string, record: string): string | undefined {
  const json = record.slice(DIGITS);
  return record.slice(0, DIGITS) === checksum(key, json) ? json : undefined;
}

function checksum(key: string, json: string): string {
  return crc32(json, crc32(key)).toString(16).padStart(DIGITS, '0');
}
