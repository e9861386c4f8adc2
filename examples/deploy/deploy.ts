/* Brings one version of a service into service on this host, and takes the one before out: `deploy.ts --help`. */
import { parseArgs } from 'node:util';
import Docker from 'dockerode';
import { type AllocEnv, AllocLifecycle, ImageCoordinator, replace } from 'handover';
import { DockerDriver, dockerAuth, dockerImages } from 'handover/docker';

const HELP = `deploy.ts --service web --image registry.example/app --port 80:8080 [--path /health] TAG

Run it again with another tag, also with an older one. The first run starts the service.
Exit codes: 0 the version serves, 3 it could not be brought up and the one before serves on, 1 anything else.`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    service: { type: 'string', default: 'web' },
    image: { type: 'string', default: '' },
    port: { type: 'string', default: '' },
    path: { type: 'string', default: '/' },
    help: { type: 'boolean', default: false },
  },
});
const { service, image, path } = values;
const [tag = ''] = positionals;
const [, host, container] = /^(\d+):(\d+)$/.exec(values.port) ?? [];
if (values.help || tag === '' || image === '' || host === undefined) {
  console.log(HELP);
  process.exit(values.help ? 0 : 1);
}

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
const prefix = `${service}-`;
const version = (of: string) => ({
  id: `${prefix}${of}`,
  tasks: [
    {
      name: 'main',
      driver,
      spec: { image: `${image}:${of}`, ports: { http: { container: Number(container), host: Number(host) } } },
    },
  ] as const,
  health: { checks: [{ name: 'up', type: 'http', port: 'http', path } as const], minHealthyTime: '2s' },
});

/** All that is left of this service from earlier runs, whatever became of them. */
async function earlier(): Promise<readonly AllocLifecycle[]> {
  const ids = (await driver.list({})).map(({ allocId }) => allocId).filter((id) => id.startsWith(prefix));
  return Promise.all([...new Set(ids)].map((id) => AllocLifecycle.open(version(id.slice(prefix.length)), env)));
}

async function deploy(signal: AbortSignal): Promise<number> {
  const found = await earlier();
  const current = found.find(({ state }) => state === 'running');
  if (current?.id === version(tag).id) {
    console.log(`${current.id} runs already`);
    await current.detach();
    return 0;
  }
  // What ran into nothing earlier: never started, or ended.
  for (const rest of found.filter((one) => one !== current)) {
    await rest.discard();
    await rest.destroy();
  }
  const { outcome, cause, outage, serving } = await replace(current, new AllocLifecycle(version(tag), env), { signal });
  console.log(outcome, cause?.message ?? `out of service for ${Math.round(outage?.ms ?? 0)} ms`);
  // Let go of what runs: it goes on, and the next run finds it again.
  await serving?.detach();
  return { replaced: 0, 'kept-previous': 3 }[outcome as string] ?? 1;
}

const control = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => control.abort(new Error(`Interrupted by ${name}`)));
}
try {
  process.exitCode = await deploy(control.signal);
} finally {
  await images.close();
}
