import { type AuthProvider, type Credentials, HandoverError } from 'handover';
import { expect, vi } from 'vitest';
import type { Fixture } from './fixture.js';
import { pullError, type Step } from './scripted-source.js';

export const ann = { username: 'ann', password: 'pw-1' };
export const bob = { username: 'bob', password: 'pw-2' };

/** What each fetch was sent with. */
export function sent(all: Fixture): (Credentials | undefined)[] {
  const seen: (Credentials | undefined)[] = [];
  const { before } = all.source;
  all.source.before = (step) => {
    if (step.line.startsWith('fetch')) seen.push(credentialsOf(step));
    return before(step);
  };
  return seen;
}

function credentialsOf({ call }: Step): Credentials | undefined {
  return (call as { readonly credentials?: Credentials }).credentials;
}

/** A registry that lets only one name in; its failures are those of the source. */
export function guard({ source }: Fixture, username: string): void {
  source.before = (step) => {
    if (!step.line.startsWith('fetch')) return;
    const shown = credentialsOf(step);
    if (shown === undefined || !('username' in shown) || shown.username !== username) {
      throw pullError('redis:7', 'unauthorized', false);
    }
  };
}

export function outage({ source }: Fixture): void {
  source.before = ({ line }) => {
    if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
  };
}

/** Answers one after the other, the last one for ever. */
export function answers(...given: readonly ((Credentials & { expiresAt?: number }) | undefined)[]) {
  let asked = 0;
  return vi.fn<AuthProvider>(async () => given[Math.min(asked++, given.length - 1)]);
}

export async function failure(acquire: Promise<unknown>): Promise<HandoverError<'ERR_PULL_FAILED'>> {
  const caught: unknown = await acquire.then(
    () => 'nothing failed',
    (error: unknown) => error,
  );
  expect(caught).toBeInstanceOf(HandoverError);
  return caught as HandoverError<'ERR_PULL_FAILED'>;
}
