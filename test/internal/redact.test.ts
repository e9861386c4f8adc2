import { describe, expect, it } from 'vitest';
import { isHandoverError } from 'handover';
import { withoutUserinfo } from '../../src/internal/redact.js';
import { parseReference } from '../../src/docker/reference.js';
import { parseFileReference } from '../../src/process/file-reference.js';

const DIGEST = `sha256:${'a'.repeat(64)}`;

describe('withoutUserinfo', () => {
  it.each([
    ['https://user:hunter2@host/f', 'https://host/f'],
    ['ftp://user:hun/ter@2@host/f', 'ftp://host/f'],
    ['user:hunter2@registry/app:v1', 'registry/app:v1'],
    ['"user:hunter2@registry/app" is no host', '"registry/app" is no host'],
    [`golang:1.4@${DIGEST}`, `golang:1.4@${DIGEST}`],
    ['localhost:5000/app:v1', 'localhost:5000/app:v1'],
  ])('G-6 %s', (text, shown) => {
    expect(withoutUserinfo(text)).toBe(shown);
  });
});

describe.each([
  ['image', parseReference],
  ['file', parseFileReference],
])('a bad %s reference with credentials in it', (_what, parse) => {
  it.each([
    'https://user:hunter2@registry/app:v1',
    'user:hunter2@registry/app:v1',
    'ftp://user:hunter2@host/f',
    'https://user:hunter2@host:99999/f',
    'https://user:hunter2@host/f#sha256=zz',
  ])('G-6 %s is refused without repeating them', (reference) => {
    let caught: unknown;
    try {
      parse(reference);
    } catch (error) {
      caught = error;
    }
    expect(isHandoverError(caught, 'ERR_INVALID_REFERENCE')).toBe(true);
    expect(JSON.stringify(caught) + (caught as Error).message + (caught as Error).stack!).not.toContain('hunter2');
  });
});
