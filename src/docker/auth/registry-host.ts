/** How references name Docker's own registry. */
const HUB = 'docker.io';

/** How Docker's configuration, its credential helpers and its engine name it. */
const HUB_SERVER = 'https://index.docker.io/v1/';

const HUB_HOSTS = new Set([HUB, 'index.docker.io', 'registry-1.docker.io']);

/**
 * The host of a registry, from any spelling that Docker's configuration has used for it: with or without a scheme and a
 * path, and with each of the names of Docker's own.
 *
 * @returns as references write it: `ghcr.io`, `127.0.0.1:5000`, `docker.io`
 */
export function registryHost(spelling: string): string {
  const host = spelling.replace(/^https?:\/\//, '').replace(/\/.*$/, '');
  return HUB_HOSTS.has(host) ? HUB : host;
}

/** The address by which credentials are kept, asked for and sent: the host, but for Docker's own its legacy URL. */
export function serverAddress(host: string): string {
  return host === HUB ? HUB_SERVER : host;
}

/** The entry of a registry in a part of Docker's configuration; its exact address goes before other spellings. */
export function entryOf<T>(entries: Readonly<Record<string, T>>, host: string): T | undefined {
  const all = Object.entries(entries);
  const exact = all.find(([key]) => key === serverAddress(host));
  return (exact ?? all.find(([key]) => registryHost(key) === host))?.[1];
}
