import { createHash } from 'node:crypto';
import { describe, it } from 'vitest';
import {
  FakeClock,
  FakeHost,
  type FakeScript,
  type FakeSpec,
  describeArtifactSource,
  describeTaskDriver,
} from 'handover/testing';

let clock = new FakeClock();
let host = new FakeHost({ clock });
const runner = { describe, it };

function begin(): FakeHost {
  clock = new FakeClock();
  host = new FakeHost({ clock });
  return host;
}

/** What each reference was published as. */
const digests = new Map<string, string>();

function publish(name: string, hex: string): string {
  const reference = `${name}:v1`;
  digests.set(reference, hex);
  host.images().put(reference, { id: `sha256:${hex}`, digest: `sha256:${hex}` });
  return reference;
}

function scripted(script: FakeScript): (allocId: string) => FakeSpec {
  return (allocId) => {
    host.script(allocId, script);
    return { version: 'v1' };
  };
}

// DP-11: the suite that both built-in drivers pass; it holds the fake to what it stands for.
describeTaskDriver<FakeSpec>('FakeHost', {
  runner,
  make: async () => {
    begin();
    return host.driver();
  },
  again: async () => host.driver(),
  spec: (version) => ({ version }),
  settle: (promise) => clock.until(promise),
  vanish: async (owner) => host.prune(owner),
  exiting: scripted({ exitAfter: '1s', exit: { code: 3 } }),
  stubborn: scripted({ ignores: ['SIGTERM'] }),
  hanging: scripted({ prestart: 'hang' }),
  speaking: scripted({ output: { stdout: 'out\n', stderr: 'err\n' } }),
  ready: async ({ id }) => host.script(id, { exec: ([, code]) => ({ code: Number(code), output: 'ran\n' }) }),
  command: (code) => ['run', String(code)],
  signals: (owner) =>
    host.calls.flatMap((call) => (call.startsWith(`signal ${owner} `) ? [call.replace(`signal ${owner} `, '')] : [])),
});

// IC-24: one suite over all sources.
describeArtifactSource('FakeImages', {
  runner,
  make: async () => begin().images(),
  publish: async (name, content) => publish(name, createHash('sha256').update(content).digest('hex')),
  alias: async (reference, name) => publish(name, digests.get(reference)!),
  missing: () => 'nowhere:v1',
  hanging: async () => {
    host.images().put('slow:v1');
    host.images().delay = 'never';
    return 'slow:v1';
  },
  settle: (promise) => clock.until(promise),
});
