import { describe, expect, expectTypeOf, it, vi } from 'vitest';
import { HandoverError, type PullReason, findError, isHandoverError } from 'handover';
import { invalidOption } from '../src/errors.js';

const pull = (cause?: unknown, retryable?: boolean) =>
  new HandoverError('ERR_PULL_FAILED', 'app:v9 could not be pulled', {
    details: { reference: 'app:v9', reason: 'not-found-or-denied', attempts: 1 },
    cause,
    ...(retryable === undefined ? {} : { retryable }),
  });
const prestart = (cause?: unknown) =>
  new HandoverError('ERR_PRESTART_FAILED', 'a1/web was not prepared', {
    details: { allocId: 'a1', task: 'web' },
    cause,
  });

describe('HandoverError', () => {
  it('G-6 carries code, details, retryable and cause', () => {
    const cause = new Error('socket hang up');
    const error = pull(cause, true);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'HandoverError', code: 'ERR_PULL_FAILED', retryable: true, cause });
    expect(error.details).toEqual({ reference: 'app:v9', reason: 'not-found-or-denied', attempts: 1 });
    expect(String(error)).toBe('HandoverError: app:v9 could not be pulled');
    expect(error.stack).toContain('errors.test.ts');
  });

  it('G-6 is not retryable and has no cause unless told so', () => {
    expect(pull().retryable).toBe(false);
    expect('cause' in pull()).toBe(false);
  });

  it('G-6 becomes JSON with the whole chain of causes, through errors of others too', () => {
    const engine = Object.assign(new Error('engine', { cause: pull(new Error('refused')) }), { secret: 'token' });
    const both = new AggregateError([engine, 'odd'], 'both failed');
    expect(JSON.parse(JSON.stringify({ error: prestart(both) }))).toEqual({
      error: {
        ...{ name: 'HandoverError', code: 'ERR_PRESTART_FAILED', message: 'a1/web was not prepared' },
        ...{ details: { allocId: 'a1', task: 'web' }, retryable: false },
        cause: {
          ...{ name: 'AggregateError', message: 'both failed' },
          errors: [
            {
              ...{ name: 'Error', message: 'engine' },
              cause: {
                ...{ name: 'HandoverError', code: 'ERR_PULL_FAILED', message: 'app:v9 could not be pulled' },
                ...{ details: { reference: 'app:v9', reason: 'not-found-or-denied', attempts: 1 }, retryable: false },
                cause: { name: 'Error', message: 'refused' },
              },
            },
            'odd',
          ],
        },
      },
    });
  });

  it('G-6 JSON of a circle of causes ends', () => {
    const error = prestart();
    error.cause = new Error('outer', { cause: error });
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({
      code: 'ERR_PRESTART_FAILED',
      cause: { message: 'outer', cause: 'HandoverError: a1/web was not prepared' },
    });
  });
});

describe('isHandoverError', () => {
  it('G-6 recognises errors of another copy of the library', async () => {
    vi.resetModules();
    const copy = await import('../src/errors.js');
    const theirs = new copy.HandoverError('ERR_CLOSED', 'closed', { details: {} });
    expect(copy.HandoverError).not.toBe(HandoverError);
    expect(theirs).not.toBeInstanceOf(HandoverError);
    expect([isHandoverError(theirs), isHandoverError(theirs, 'ERR_CLOSED')]).toEqual([true, true]);
    expect(copy.isHandoverError(pull())).toBe(true);
    expect(findError(prestart(theirs), 'ERR_CLOSED')).toBe(theirs);
    expect(JSON.stringify(prestart(theirs))).toContain('"code":"ERR_CLOSED"');
  });

  it('G-6 tells codes apart', () => {
    expect(isHandoverError(pull(), 'ERR_PULL_FAILED', 'ERR_IMAGE_ABSENT')).toBe(true);
    expect(isHandoverError(pull(), 'ERR_IMAGE_ABSENT')).toBe(false);
  });

  it.each([undefined, null, 'ERR_CLOSED', 5, {}, new Error('x'), { code: 'ERR_CLOSED' }])('G-6 %j is none', (other) => {
    expect(isHandoverError(other)).toBe(false);
  });

  it('G-6 details are narrowed by the code', () => {
    const caught: unknown = pull();
    if (!isHandoverError(caught, 'ERR_PULL_FAILED', 'ERR_IMAGE_ABSENT')) throw caught;
    expectTypeOf(caught.details.reference).toEqualTypeOf<string>();
    if (caught.code === 'ERR_PULL_FAILED') expectTypeOf(caught.details.reason).toEqualTypeOf<PullReason>();
    expect(caught.details.reference).toBe('app:v9');
  });
});

describe('findError', () => {
  it('G-6 walks causes and the parts of an AggregateError, nearest first', () => {
    const inner = pull();
    const outer = pull(inner);
    const wrapped = new Error('wrapped', { cause: new AggregateError([new Error('other'), prestart(outer)]) });
    expect(findError(wrapped, 'ERR_PULL_FAILED')).toBe(outer);
    expect(findError(wrapped, 'ERR_PRESTART_FAILED', 'ERR_PULL_FAILED')?.code).toBe('ERR_PRESTART_FAILED');
    expect(findError(wrapped, 'ERR_CLOSED')).toBeUndefined();
    expect(findError(outer, 'ERR_PULL_FAILED')).toBe(outer);
  });

  it('G-6 does not loop on circles', () => {
    const one = new Error('one');
    const group = new AggregateError([one], 'group', { cause: one });
    one.cause = group;
    group.errors.push(group);
    expect(findError(one, 'ERR_CLOSED')).toBeUndefined();
    expect(findError('text', 'ERR_CLOSED')).toBeUndefined();
  });
});

it('G-1 invalidOption names the option', () => {
  expect(invalidOption('pull.attempts', 'must be a whole number from 1')).toMatchObject({
    ...{ code: 'ERR_INVALID_OPTION', details: { path: 'pull.attempts' }, retryable: false },
    message: 'Option pull.attempts: must be a whole number from 1',
  });
});
