import { createCipheriv, createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { RUN_LABEL, type Parts } from './parts.js';

export interface ImageSpec {
  /** Repository in the registry; {@link uniqueName} keeps it apart from what other runs pushed and pulled. */
  readonly name: string;
  readonly tag: string;
  /** What the app answers. Default: the tag */
  readonly version?: string;
  /** Random bytes beside the app, in a layer of its own: what makes the pull take time. Default: 0 */
  readonly paddingMb?: number;
  /** Environment of the app, see app/app.c. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface BuiltImage {
  readonly name: string;
  readonly tag: string;
  /** What the engine calls the image once it is pulled: `sha256:…` of the configuration. */
  readonly id: string;
  /** `sha256:…` of the manifest, as in `name@digest`. */
  readonly digest: string;
  /** How many bytes of blobs a pull moves when the engine has none of the layers. */
  readonly bytes: number;
}

interface Blob {
  readonly digest: string;
  readonly size: number;
  readonly content: Buffer;
}

interface Layer extends Blob {
  readonly diffId: string;
}

const SCHEMA = 'application/vnd.docker.distribution.manifest.v2+json';

/**
 * Makes an image of the test app and pushes it over the registry's own API: the engine never saw it, so that a pull
 * moves every byte. The same spec makes the same bytes, and what the registry has is not pushed again.
 */
export async function pushImage(parts: Parts, spec: ImageSpec): Promise<BuiltImage> {
  if (!parts.registry.available) throw new Error(parts.registry.reason);
  if (!parts.app.available) throw new Error(parts.app.reason);
  const { name, tag } = spec;
  const app = { path: 'bin/app', mode: 0o755, content: await readFile(parts.app.path) };
  // With a name in each, no two images share a layer: an engine pulls only what it does not have.
  const label = { path: 'image', mode: 0o644, content: Buffer.from(`${name}:${tag}\n`) };
  const padding = spec.paddingMb ?? 0;
  const layers = [layer([app, label], 6), ...(padding > 0 ? [layer([paddingFile(spec, padding)], 0)] : [])];
  const config = blob(Buffer.from(JSON.stringify(configuration(parts.runId, spec, layers))));
  const manifest = blob(Buffer.from(JSON.stringify(manifestOf(config, layers))));

  const repository = `http://127.0.0.1:${parts.registry.port}/v2/${name}`;
  for (const part of [...layers, config]) await pushBlob(repository, part);
  await send(`${repository}/manifests/${tag}`, 'PUT', manifest.content, SCHEMA);
  return { name, tag, id: config.digest, digest: manifest.digest, bytes: sum([...layers, config]) };
}

/** Makes a tag mean in the registry what another one means. */
export async function tagInRegistry(port: number, name: string, from: string, to: string): Promise<void> {
  const manifests = `http://127.0.0.1:${port}/v2/${name}/manifests`;
  const manifest = await fetch(`${manifests}/${from}`, { headers: { accept: SCHEMA } });
  await send(`${manifests}/${to}`, 'PUT', Buffer.from(await manifest.arrayBuffer()), SCHEMA);
}

const sum = (blobs: readonly Blob[]): number => blobs.reduce((total, { size }) => total + size, 0);

function configuration(runId: string, spec: ImageSpec, layers: readonly Layer[]): object {
  const env = { VERSION: spec.version ?? spec.tag, ...spec.env };
  return {
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    os: 'linux',
    created: '2024-01-01T00:00:00Z',
    config: {
      Cmd: ['/bin/app'],
      Env: ['PATH=/bin', ...Object.entries(env).map(([key, value]) => `${key}=${value}`)],
      Labels: { [RUN_LABEL]: runId },
    },
    history: layers.map(() => ({ created: '2024-01-01T00:00:00Z' })),
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
  };
}

function manifestOf(config: Blob, layers: readonly Layer[]): object {
  const entry = (mediaType: string, { digest, size }: Blob): object => ({ mediaType, digest, size });
  return {
    schemaVersion: 2,
    mediaType: SCHEMA,
    config: entry('application/vnd.docker.container.image.v1+json', config),
    layers: layers.map((part) => entry('application/vnd.docker.image.rootfs.diff.tar.gzip', part)),
  };
}

async function pushBlob(repository: string, { digest, content }: Blob): Promise<void> {
  const known = await fetch(`${repository}/blobs/${digest}`, { method: 'HEAD' });
  if (known.ok) return;
  const upload = await send(`${repository}/blobs/uploads/`, 'POST');
  const at = new URL(upload.headers.get('location') ?? '', repository);
  at.searchParams.set('digest', digest);
  await send(at.href, 'PUT', content, 'application/octet-stream');
}

async function send(url: string, method: string, body?: Buffer, type?: string): Promise<Response> {
  const answer = await fetch(url, {
    method,
    ...(body !== undefined && { body: new Uint8Array(body) }),
    ...(type !== undefined && { headers: { 'content-type': type } }),
  });
  if (!answer.ok) throw new Error(`${method} ${url}: ${answer.status} ${await answer.text()}`);
  return answer;
}

const sha256 = (content: Buffer): string => `sha256:${createHash('sha256').update(content).digest('hex')}`;

const blob = (content: Buffer): Blob => ({ content, digest: sha256(content), size: content.length });

function layer(files: readonly TarFile[], level: number): Layer {
  const content = tar(files);
  return { ...blob(gzipSync(content, { level })), diffId: sha256(content) };
}

interface TarFile {
  readonly path: string;
  readonly mode: number;
  readonly content: Buffer;
}

/** Bytes that no compression makes fewer, and that are the same for the same image. */
function paddingFile({ name, tag }: ImageSpec, megabytes: number): TarFile {
  const key = createHash('sha256').update(`${name}:${tag}`).digest();
  const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  return { path: 'padding', mode: 0o644, content: cipher.update(Buffer.alloc(megabytes * 1_000_000)) };
}

function tar(files: readonly TarFile[]): Buffer {
  const blocks = files.flatMap((file) => {
    const rest = file.content.length % 512;
    return [tarHeader(file), file.content, Buffer.alloc(rest === 0 ? 0 : 512 - rest)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** A header of the ustar format: fixed fields in octal, and their sum. */
function tarHeader({ path, mode, content }: TarFile): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`;
  header.write(path, 0);
  header.write(octal(mode, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(content.length, 11), 124);
  header.write(octal(0, 11), 136);
  header.write(' '.repeat(8), 148);
  header.write('0', 156);
  header.write('ustar\x0000', 257);
  header.write(
    `${octal(
      header.reduce((total, byte) => total + byte, 0),
      6,
    )} `,
    148,
  );
  return header;
}
