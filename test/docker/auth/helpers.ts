import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { inspect } from 'node:util';
import type { AuthProvider } from 'handover';
import { onTestFinished, vi } from 'vitest';

/** A folder with a `config.json` and with credential helpers that are found by PATH; gone after the test. */
export class Home {
  readonly folder = mkdtempSync(join(tmpdir(), 'handover-auth-'));
  readonly configFile = join(this.folder, 'config.json');

  constructor() {
    vi.stubEnv('PATH', `${this.folder}${delimiter}${process.env['PATH'] ?? ''}`);
    vi.stubEnv('DOCKER_CONFIG', this.folder);
    onTestFinished(() => {
      vi.unstubAllEnvs();
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  /** @param config - text is written as it is */
  config(config: unknown): this {
    writeFileSync(this.configFile, typeof config === 'string' ? config : JSON.stringify(config));
    return this;
  }

  /** A helper that notes what it is asked, in the order of the questions, and goes on with `script`. */
  helper(name: string, script: string): this {
    const path = join(this.folder, `docker-credential-${name}`);
    const noted = join(this.folder, 'asked');
    writeFileSync(path, `#!/bin/sh\nserver=$(cat)\necho "${name} $1 $server" >> '${noted}'\n${script}\n`);
    chmodSync(path, 0o755);
    return this;
  }

  /** A helper that always gives one answer. */
  answering(name: string, username: string, secret: string): this {
    const answer = JSON.stringify({ ServerURL: 'x', Username: username, Secret: secret });
    return this.helper(name, `cat <<'END'\n${answer}\nEND`);
  }

  /** What the helpers were asked: `pass get ghcr.io`. */
  get asked(): readonly string[] {
    return this.read('asked').split('\n').slice(0, -1);
  }

  read(file: string): string {
    const path = join(this.folder, file);
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }
}

export const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

/** One plain question. */
export function ask(provider: AuthProvider, host: string, signal?: AbortSignal): ReturnType<AuthProvider> {
  return provider(host, { scope: undefined, refused: false, signal });
}

/** The error of a promise that must fail. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => {
      throw new Error(`it did not fail, but gave ${JSON.stringify(value)}`);
    },
    (error: unknown) => error,
  );
}

/** Everything that a log could show of a value: all of its properties, hidden ones and causes too, and its JSON. */
export function shown(value: unknown): string {
  return `${inspect(value, { depth: Infinity, showHidden: true, getters: true })}\n${JSON.stringify(value)}`;
}
