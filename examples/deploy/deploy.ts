/* Brings one version of a service into service on this host, and takes the one before out: `deploy.ts --help`. */
import { parseArgs } from 'node:util';
import Docker from 'dockerode';
import { type AllocEnv, AllocLifecycle, ImageCoordinator, isHandoverError, replace } from 'handover';
import { DockerDriver, dockerAuth, dockerImages } from 'handover/docker';

const HELP = `deploy.ts [--service web] --image registry.example/app --port 80:8080 [--path /health] [--deadline 5m] TAG

Run it again with another tag, also with an older one. The first run starts the service. A version that does not
answer --path within --deadline of its start counts as failed.
Exit codes: 0 the version serves, 3 it could not be brought up and the one before serves on, 2 a wrong command line,
1 anything else.`;

function readFlags() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      service: { type: 'string', default: 'web' },
      image: { type: 'string', default: '' },
      port: { type: 'string', default: '' },
      path: { type: 'string', default: '/' },
      deadline: { type: 'string', default: '5m' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    process.exit(0);
  }
  const [tag = '', ...more] = positionals;
  const [host, container] = (/^\d+:\d+$/.test(values.port) ? values.port : '0:0').split(':').map(Number);
  if (tag === '' || more.length > 0) throw new Error(`One TAG is needed, not ${positionals.length}`);
  if (values.image === '') throw new Error('--image is needed');
  if (!isPort(host) || !isPort(container)) throw new Error('--port must be two ports from 1 to 65535, as in 80:8080');
  // `~` parts the service from the tag, so it is in neither.
  if (!/^[\w.-]+$/.test(values.service)) throw new Error('--service must be letters, digits, `.`, `_` and `-`');
  return { ...values, tag, host, container };
}

function isPort(port: number | undefined): port is number {
  return port !== undefined && port > 0 && port < 65_536;
}

function flagsOrHelp(): ReturnType<typeof readFlags> {
  try {
    return readFlags();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    process.exit(2);
  }
}

const { service, image, host, container, path, deadline, tag } = flagsOrHelp();

// Where a logger, metrics or a UI plug in; a service registry would be `registrar: …` here.
const env: AllocEnv = {
  onEvent(event) {
    if (event.type === 'alloc:changed') console.log(event.alloc.id, event.alloc.state, '-', event.alloc.reason.message);
    if (event.type === 'warning') console.warn(event.subject, '-', event.reason.message);
  },
};
const docker = new Docker();
// With the credentials of `docker login`, if there are any.
const images = new ImageCoordinator({ source: dockerImages(docker), auth: dockerAuth() }, env);
const driver = new DockerDriver({ docker, images }, env);

// Each version has an id of its own, and says all there is to know of it: by its id it is found again.
const prefix = `${service}~`;
const version = (of: string) => ({
  id: `${prefix}${of}`,
  tasks: [{ name: 'main', driver, spec: { image: `${image}:${of}`, ports: { http: { container, host } } } }] as const,
  health: {
    checks: [{ name: 'up', type: 'http', port: 'http', path } as const],
    minHealthyTime: '2s',
    healthyDeadline: deadline,
  },
});

/** Whether it is healthy, or becomes so within its deadline. */
async function serves(alloc: AllocLifecycle, signal: AbortSignal): Promise<boolean> {
  try {
    await alloc.until('healthy', { signal });
    return true;
  } catch (error) {
    signal.throwIfAborted();
    console.error((error as Error).message);
    return false;
  }
}

/** The one that goes on. Of several, the wanted one comes first, then the newest; but one that serves before all else. */
async function pick(running: readonly AllocLifecycle[], signal: AbortSignal): Promise<AllocLifecycle | undefined> {
  const age = (one: AllocLifecycle): number =>
    one.id === version(tag).id ? -Infinity : -(one.handle('main')?.startedAt ?? 0);
  const [first, ...others] = [...running].sort((a, b) => age(a) - age(b));
  if (others.length === 0) return first;
  for (const one of [first, ...others]) if (one !== undefined && (await serves(one, signal))) return one;
  return first;
}

async function deploy(signal: AbortSignal): Promise<number> {
  const next = new AllocLifecycle(version(tag), env);
  const found: AllocLifecycle[] = [];
  try {
    // All that is left of this service from earlier runs, whatever became of them.
    const ids = (await driver.list({})).map(({ allocId }) => allocId).filter((id) => id.startsWith(prefix));
    for (const id of new Set(ids)) found.push(await AllocLifecycle.open(version(id.slice(prefix.length)), env));
    const running = found.filter(({ state }) => state === 'running');
    const current = await pick(running, signal);
    const isWanted = current?.id === next.id;
    // That it runs says little: an earlier run may have been killed before this was known.
    if (isWanted && !(await serves(current, signal))) return 1;
    // What never started, has ended, or runs beside it since an earlier run was killed.
    for (const rest of found.filter((one) => one !== current)) {
      await rest.stop({ reason: 'operator' }).result;
      await rest.destroy();
    }
    if (isWanted) {
      console.log(`${current.id} serves`);
      return 0;
    }
    const { outcome, cause, outage } = await replace(current, next, { signal });
    const note = cause?.message ?? (outage && `out of service for ${Math.round(outage.ms)} ms`);
    console.log(note === undefined ? outcome : `${outcome}: ${note}`);
    return { replaced: 0, 'kept-previous': 3 }[outcome as string] ?? 1;
  } finally {
    // Let go of what runs: it goes on, and the next run finds it again.
    for (const one of [...found, next]) await one.detach();
  }
}

const control = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => control.abort(new Error(`Interrupted by ${name}`)));
}
try {
  process.exitCode = await deploy(control.signal);
} catch (error) {
  // What the library says is for a person; anything else is a fault of this script.
  console.error(isHandoverError(error) || control.signal.aborted ? (error as Error).message : error);
  process.exitCode = isHandoverError(error, 'ERR_INVALID_OPTION') ? 2 : 1;
} finally {
  await images.close();
}
