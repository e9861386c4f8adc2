import { isHandoverError, type PullReason } from 'handover';
import { describe, expect, it } from 'vitest';
import { classifyPull, pullError } from '../../src/docker/pull-errors.js';

interface Row {
  readonly why: string;
  readonly text: string;
  readonly status?: number;
  readonly reason: PullReason;
}

const ROWS: readonly Row[] = [
  {
    why: 'case C3',
    status: 404,
    text: "pull access denied for x, repository does not exist or may require 'docker login'",
    reason: 'not-found-or-denied',
  },
  {
    why: 'case C3 with the registry’s own words',
    status: 404,
    text: "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
    reason: 'not-found-or-denied',
  },
  {
    why: 'case C12',
    status: 500,
    text: 'Head "https://registry.example.com/v2/app/manifests/3": no basic auth credentials',
    reason: 'unauthorized',
  },
  { why: 'case C13', text: 'denied: Permission denied for "latest"', reason: 'not-found-or-denied' },
  {
    why: 'case C13',
    text: 'manifest for x:y not found: manifest unknown: manifest unknown',
    reason: 'not-found-or-denied',
  },
  {
    why: 'case C14',
    status: 500,
    text: 'toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating',
    reason: 'rate-limited',
  },
  { why: 'case C15', text: 'unexpected EOF', reason: 'registry-unavailable' },
  {
    why: 'case C16',
    text: 'failed to register layer: write /usr/lib/x.so: no space left on device',
    reason: 'no-space',
  },
  {
    why: 'case C17',
    text: 'no matching manifest for linux/arm64/v8 in the manifest list entries',
    reason: 'no-platform',
  },
  {
    why: 'case C1',
    text: 'net/http: request canceled (Client.Timeout exceeded while awaiting headers)',
    reason: 'registry-unavailable',
  },
  {
    why: 'a refused registry',
    status: 500,
    text: 'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused',
    reason: 'registry-unavailable',
  },
  {
    why: 'no DNS',
    status: 500,
    text: 'dial tcp: lookup forbidden.example: no such host',
    reason: 'registry-unavailable',
  },
  { why: 'a slow registry', text: 'net/http: TLS handshake timeout', reason: 'registry-unavailable' },
  {
    why: 'a reset',
    text: 'read tcp 10.0.0.2:1->10.0.0.3:443: read: connection reset by peer',
    reason: 'registry-unavailable',
  },
  {
    why: 'a broken registry',
    text: 'received unexpected HTTP status: 503 Service Unavailable',
    reason: 'registry-unavailable',
  },
  { why: 'a wrong scheme', text: 'http: server gave HTTP response to HTTPS client', reason: 'registry-unavailable' },
  { why: 'wrong credentials', text: 'unauthorized: incorrect username or password', reason: 'unauthorized' },
  { why: 'no credentials', text: 'unauthorized: authentication required', reason: 'unauthorized' },
  {
    why: 'a bare 401',
    text: 'error parsing HTTP 401 response body: unexpected end of JSON input: ""',
    reason: 'unauthorized',
  },
  {
    why: 'a bare 403',
    text: 'error parsing HTTP 403 response body: unexpected end of JSON input: ""',
    reason: 'not-found-or-denied',
  },
  {
    why: 'a bare 429',
    text: 'error parsing HTTP 429 response body: unexpected end of JSON input: ""',
    reason: 'rate-limited',
  },
  {
    why: 'expired credentials',
    text: 'denied: Your authorization token has expired. Reauthenticate and try again.',
    reason: 'unauthorized',
  },
  {
    why: 'a bare 403',
    text: 'unexpected status from HEAD request to https://r/v2/a/manifests/1: 403 Forbidden',
    reason: 'not-found-or-denied',
  },
  {
    why: 'a bare 429',
    text: 'unexpected status from HEAD request to https://r/v2/a/manifests/1: 429 Too Many Requests',
    reason: 'rate-limited',
  },
  {
    why: 'a bad name at the engine',
    status: 400,
    text: 'invalid reference format: repository name must be lowercase',
    reason: 'invalid-reference',
  },
  {
    why: 'a container of another platform',
    status: 404,
    text: 'image with reference app:1 was found but does not match the specified platform: wanted linux/arm64, actual: linux/amd64',
    reason: 'no-platform',
  },
  { why: 'by status', status: 401, text: 'no', reason: 'unauthorized' },
  { why: 'by status', status: 404, text: 'no', reason: 'not-found-or-denied' },
  { why: 'by status', status: 429, text: 'no', reason: 'rate-limited' },
  { why: 'by status, from a proxy', status: 502, text: '<html>', reason: 'engine-unavailable' },
  { why: 'nothing known', status: 500, text: 'the moon is full', reason: 'unknown' },
  { why: 'nothing known', text: 'layer does not exist', reason: 'unknown' },
  // Names are no words: a tag 401, an image that is called after a failure.
  {
    why: 'the tag is 401',
    text: 'Head "https://r.example.com/v2/app/manifests/401": dial tcp: lookup r.example.com: no such host',
    reason: 'registry-unavailable',
  },
  {
    why: 'the image is called denied',
    text: 'Head "https://r.example.com/v2/denied/manifests/1": something new',
    reason: 'unknown',
  },
  {
    why: 'the image is called timeout',
    text: 'failed to resolve reference "reg.example/timeout-svc:1": unexpected status from HEAD request to https://reg.example/v2/timeout-svc/manifests/1: 401 Unauthorized',
    reason: 'unauthorized',
  },
  {
    why: 'the image is called toomanyrequests',
    text: 'failed to resolve reference "reg.example:5000/a/toomanyrequests:1": reg.example:5000/a/toomanyrequests:1: not found: 403 Forbidden',
    reason: 'not-found-or-denied',
  },
  {
    why: 'the tag is denied',
    text: `docker.io/library/app:denied@sha256:${'a'.repeat(64)}: something new`,
    reason: 'unknown',
  },
  {
    why: 'the host is called toomanyrequests',
    text: 'dial tcp: lookup toomanyrequests.example on 127.0.0.11:53: server misbehaving',
    reason: 'registry-unavailable',
  },
  {
    why: 'the network of the registry',
    text: 'failed to do request: dial tcp 10.0.0.3:443: i/o timeout',
    reason: 'registry-unavailable',
  },
  {
    why: 'the image is called unauthorized',
    text: 'manifest for unauthorized/timeout:401 not found: manifest unknown',
    reason: 'not-found-or-denied',
  },
];

describe('IC-10 classes of failed pulls', () => {
  it.each(ROWS)('$why: $status $text → $reason', ({ text, status, reason }) => {
    expect(classifyPull(text, status)).toBe(reason);
  });

  it.each([
    ['rate-limited', true],
    ['registry-unavailable', true],
    ['stalled', true],
    ['timed-out', true],
    ['corrupt-stream', true],
    ['engine-unavailable', true],
    ['unknown', true],
    ['not-found-or-denied', false],
    ['unauthorized', false],
    ['no-space', false],
    ['no-platform', false],
    ['invalid-reference', false],
    ['aborted', false],
  ] as const)('%s: retryable=%s', (reason, retryable) => {
    const error = pullError('redis:7', reason, 'the words', new Error('below'));
    expect(error.retryable).toBe(retryable);
    expect(error.details).toEqual({ reference: 'redis:7', reason, attempts: 1 });
    expect(error.message).toContain('redis:7');
    expect(error.message).toContain('the words');
    expect(isHandoverError(error, 'ERR_PULL_FAILED')).toBe(true);
  });
});
