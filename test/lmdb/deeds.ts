import type { StoreOp } from 'handover';

const SLOTS = 40;

/**
 * The n-th batch of an unending work: it counts, writes pairs that must agree, makes values large and small, and deletes.
 * After any number of whole batches it is known what the store holds.
 */
export function deed(n: number): readonly StoreOp[] {
  const slot = n % SLOTS;
  const value = { n, text: 'x'.repeat((n * 7919) % 6000) };
  return [
    { put: 'count', value: n },
    { put: `left/${slot}`, value },
    { put: `right/${slot}`, value },
    { del: `left/${(n * 13) % SLOTS}` },
    { del: `right/${(n * 13) % SLOTS}` },
  ];
}
