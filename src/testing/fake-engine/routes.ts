import type { FakeAnswer, FakeRequest } from './answer.js';
import { EngineProblem } from './answer.js';
import { type FakeContainer, inspectJson, isUp, listJson } from './container.js';
import type { EngineContainers } from './containers.js';
import { type EngineImages, imageJson } from './images.js';
import type { EngineExecs } from './execs.js';
import type { EngineNetworks } from './networks.js';
import { frame, type Written } from './output.js';

/** What the routes work on. */
export interface World {
  readonly execs: EngineExecs;
  readonly images: EngineImages;
  readonly containers: EngineContainers;
  readonly networks: EngineNetworks;
}

type Handler = (world: World, name: string, request: FakeRequest) => FakeAnswer;
type Route = readonly [method: string, path: RegExp, handler: Handler];

const DONE: FakeAnswer = { status: 204 };

function onContainer(work: (c: FakeContainer, world: World, request: FakeRequest) => FakeAnswer): Handler {
  return (world, name, request) => work(world.containers.get(name), world, request);
}

function done(work: (c: FakeContainer, world: World, request: FakeRequest) => void): Handler {
  return onContainer((c, world, request) => {
    work(c, world, request);
    return DONE;
  });
}

/** The part of the engine's HTTP API that the library uses; the first group of each path is the name. */
const ROUTES: readonly Route[] = [
  ['GET', /^\/_ping$/, () => ({ status: 200, body: 'OK' })],
  ['GET', /^\/version$/, () => ({ status: 200, body: { Version: 'fake', ApiVersion: '1.41' } })],
  ['POST', /^\/images\/create$/, ({ images }, _, { query }) => pull(images, query)],
  ['GET', /^\/images\/json$/, ({ images }) => ({ status: 200, body: images.list().map(imageJson) })],
  ['GET', /^\/images\/(.+)\/json$/, ({ images }, name) => ({ status: 200, body: imageJson(images.get(name)) })],
  ['DELETE', /^\/images\/(.+)$/, removeImage],
  ['GET', /^\/containers\/json$/, list],
  ['POST', /^\/containers\/create$/, create],
  ['GET', /^\/containers\/([^/]+)\/json$/, onContainer((c) => ({ status: 200, body: inspectJson(c) }))],
  [
    'POST',
    /^\/containers\/([^/]+)\/start$/,
    onContainer((c, w) => (w.containers.life.start(c) ? DONE : { status: 304 })),
  ],
  ['POST', /^\/containers\/([^/]+)\/restart$/, done((c, w) => w.containers.life.restart(c))],
  ['GET', /^\/containers\/([^/]+)\/logs$/, onContainer(logs)],
  ['POST', /^\/containers\/([^/]+)\/exec$/, onContainer(createExec)],
  ['POST', /^\/exec\/([^/]+)\/start$/, ({ execs }, id) => ({ status: 200, pieces: execs.start(id) })],
  ['GET', /^\/exec\/([^/]+)\/json$/, ({ execs }, id) => ({ status: 200, body: execs.inspect(id) })],
  ['POST', /^\/containers\/([^/]+)\/kill$/, done((c, w, r) => w.containers.life.signal(c, signalIn(r)))],
  ['POST', /^\/containers\/([^/]+)\/wait$/, onContainer(wait)],
  ['POST', /^\/containers\/([^/]+)\/rename$/, done((c, w, r) => w.containers.rename(c, r.query.get('name') ?? ''))],
  ['POST', /^\/containers\/([^/]+)\/update$/, onContainer(update)],
  ['POST', /^\/containers\/([^/]+)\/pause$/, done((c, w) => w.containers.freeze(c, true))],
  ['POST', /^\/containers\/([^/]+)\/unpause$/, done((c, w) => w.containers.freeze(c, false))],
  ['POST', /^\/networks\/([^/]+)\/connect$/, connect],
  ['GET', /^\/networks\/([^/]+)$/, ({ networks }, name) => ({ status: 200, body: networks.get(name) })],
  ['DELETE', /^\/containers\/([^/]+)$/, done((c, w, r) => w.containers.remove(c, isTrue(r.query.get('force'))))],
];

/** Does what a request asks for, or refuses as the engine does. */
export function answer(world: World, request: FakeRequest): FakeAnswer {
  for (const [method, path, handler] of ROUTES) {
    const match = method === request.method ? path.exec(request.path) : null;
    if (match !== null) return handler(world, match[1] ?? '', request);
  }
  throw new EngineProblem(404, 'page not found');
}

function connect({ containers, networks }: World, name: string, { body }: FakeRequest): FakeAnswer {
  const { Container, EndpointConfig } = body as { readonly Container: string; readonly EndpointConfig: object };
  networks.connect(name, containers.get(Container), EndpointConfig);
  return { status: 200 };
}

function pull(images: EngineImages, query: URLSearchParams): FakeAnswer {
  return images.pull(query.get('fromImage') ?? '', query.get('tag'), query.get('platform'));
}

function removeImage({ images, containers }: World, name: string): FakeAnswer {
  return { status: 200, body: images.remove(name, (id) => containers.usersOf(id)) };
}

function create({ containers }: World, _: string, { query, body }: FakeRequest): FakeAnswer {
  return { status: 201, body: { Id: containers.create(query.get('name'), body).id, Warnings: [] } };
}

function list({ containers }: World, _: string, { query }: FakeRequest): FakeAnswer {
  const { label = [], ...others } = JSON.parse(query.get('filters') ?? '{}') as Record<string, readonly string[]>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new EngineProblem(400, `Invalid filter '${unknown}'`);
  const found = containers
    .list()
    .filter((c) => isTrue(query.get('all')) || isUp(c))
    .filter((c) => label.every((wanted) => hasLabel(c, wanted)));
  return { status: 200, body: found.map(listJson) };
}

function logs(c: FakeContainer, _: World, { query }: FakeRequest): FakeAnswer {
  const { Type } = (c.hostConfig as { readonly LogConfig?: { readonly Type?: string } }).LogConfig ?? {};
  if (Type === 'none') throw new EngineProblem(501, 'configured logging driver does not support reading');
  const written = c.output.read(isTrue(query.get('follow')), Number(query.get('since') ?? 0) * 1000);
  return {
    status: 200,
    pieces: c.body['Tty'] === true ? bare(written) : framed(written, isTrue(query.get('timestamps'))),
  };
}

async function* framed(written: AsyncIterable<Written>, timestamps: boolean): AsyncGenerator<Buffer, void> {
  for await (const { stream, time, bytes } of written) {
    yield frame({ stream, bytes: timestamps ? Buffer.concat([Buffer.from(`${time} `), bytes]) : bytes });
  }
}

/** A terminal's: no frames, and lines that end as a terminal wants them. */
async function* bare(written: AsyncIterable<Written>): AsyncGenerator<Buffer, void> {
  for await (const { bytes } of written) yield Buffer.from(bytes.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
}

function createExec(c: FakeContainer, { execs }: World, { body }: FakeRequest): FakeAnswer {
  return { status: 201, body: execs.create(c, body['Cmd'] as readonly string[]) };
}

function wait(c: FakeContainer, { containers }: World, { query }: FakeRequest): FakeAnswer {
  return { status: 200, later: containers.life.wait(c, query.get('condition') ?? 'not-running') };
}

function update(c: FakeContainer, { containers }: World, { body }: FakeRequest): FakeAnswer {
  containers.update(c, body);
  return { status: 200, body: { Warnings: null } };
}

function hasLabel(c: FakeContainer, wanted: string): boolean {
  const [key = '', value] = wanted.split(/=(.*)/s);
  return value === undefined ? key in c.labels : c.labels[key] === value;
}

function signalIn({ query }: FakeRequest): string {
  return query.get('signal') ?? 'SIGKILL';
}

function isTrue(text: string | null): boolean {
  return text === '1' || text === 'true';
}
