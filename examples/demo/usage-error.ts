/** Something is wrong with what was typed; the message is one line for a person. */
export class UsageError extends Error {}
