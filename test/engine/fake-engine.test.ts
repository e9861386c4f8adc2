import Docker from 'dockerode';
import { FakeEngine } from 'handover/testing';
import { expect, it } from 'vitest';
import { engineSuite, freePort, RUN_LABEL, uniqueName } from './harness/index.js';

type Outcome = readonly [step: string, status: number, text: string];

/** The same calls on any engine that has the image; ids and names of the run are written as words. */
async function transcript(docker: Docker, image: string, runId: string): Promise<readonly Outcome[]> {
  const prefix = uniqueName('twin');
  const port = String(await freePort());
  const out: Outcome[] = [];
  const HostConfig = { PortBindings: { '8080/tcp': [{ HostPort: port }] } };
  const Labels = { [RUN_LABEL]: runId, twin: prefix };
  const words = (text: string): string =>
    text
      .replace(/^\(HTTP code \d+\) [a-z ]+ - /, '')
      .replaceAll(prefix, 'twin')
      .replaceAll(port, 'PORT')
      .replace(/\b[0-9a-f]{64}\b/g, 'ID')
      .trim();
  const step = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    const [status, text] = await work().then(
      (answer) => [200, typeof answer === 'string' ? answer : ''] as const,
      (error: unknown) => {
        const { statusCode = 0, message } = error as { statusCode?: number; message: string };
        return [statusCode, statusCode === 304 ? '' : words(message)] as const;
      },
    );
    out.push([name, status, text]);
  };
  const [one, two] = [docker.getContainer(`${prefix}-one`), docker.getContainer(`${prefix}-two`)];
  const state = async (): Promise<string> => {
    const { State, HostConfig: host } = await one.inspect();
    return [State.Status, State.Running, State.ExitCode, State.OOMKilled, host.RestartPolicy?.Name].join(' ');
  };
  const connect = (network: string, Container: string) => docker.getNetwork(network).connect({ Container });
  const code = (answer: unknown): string => String((answer as { StatusCode: number }).StatusCode);
  const create = (name: string, Image = image) =>
    docker.createContainer({ name, Image, HostConfig, ExposedPorts: { '8080/tcp': {} }, Labels });
  try {
    await step('create from an image that is not there', () => create(`${prefix}-x`, 'no-such-image:v0'));
    await step('create under a bad name', () => create('x'));
    await step('create', () => create(`${prefix}-one`).then(state));
    await step('create under the same name', () => create(`${prefix}-one`));
    await step('create another', () => create(`${prefix}-two`));
    await step('rename to a name that is taken', () => two.rename({ name: `${prefix}-one` }));
    await step('rename to its own name', () => two.rename({ name: `${prefix}-two` }));
    await step('inspect what is not there', () => docker.getContainer(`${prefix}-no`).inspect());
    await step('start what is not there', () => docker.getContainer(`${prefix}-no`).start());
    await step('kill what is not there', () => docker.getContainer(`${prefix}-no`).kill({ signal: 'SIGTERM' }));
    await step('remove what is not there', () => docker.getContainer(`${prefix}-no`).remove());
    await step('inspect a network that is not there', () => docker.getNetwork('no-such-network').inspect());
    await step('connect what is not there', () => connect('bridge', `${prefix}-no`));
    await step('connect what does not run', () => connect('bridge', two.id));
    await step('connect what does not run, again', () => connect('bridge', two.id));
    await step('connect to a network that is not there, and start', async () => {
      const c = await create(`${prefix}-lost`);
      await connect('no-such-network', c.id);
      await c.start().finally(() => c.remove());
    });
    await step('create in a network that is not there, and start', async () => {
      const lost = { ...HostConfig, NetworkMode: 'no-such-network' };
      const c = await docker.createContainer({ name: `${prefix}-lost`, Image: image, HostConfig: lost, Labels });
      await c.start().finally(() => c.remove());
    });
    await step('kill what does not run', () => one.kill({ signal: 'SIGTERM' }));
    await step('wait for what does not run', async () => code(await one.wait()));
    await step('start', () => one.start().then(state));
    await step('start again', () => one.start());
    await step('start with a port that is taken', () => two.start());
    await step('remove what runs', () => one.remove());
    await step('update', () => one.update({ RestartPolicy: { Name: 'always' } }).then(state));
    await step('update back', () => one.update({ RestartPolicy: { Name: 'no' } }).then(state));
    await step('kill with what is no signal', () => one.kill({ signal: 'SIGFOO' }));
    const before = one.wait({ condition: 'next-exit' });
    await step('restart', () => one.restart({ t: 0 }).then(state));
    await step('the exit that a restart brings', async () => typeof code(await before));
    await step('pause', () => one.pause().then(state));
    await step('unpause', () => one.unpause().then(state));
    await step('list by label', async () => {
      const found = await docker.listContainers({ all: true, filters: { label: [`twin=${prefix}`] } });
      return found
        .map((c) => `${c.Names[0]?.replace(prefix, 'twin')} ${c.State}`)
        .sort()
        .join(', ');
    });
    const next = one.wait({ condition: 'next-exit' }).then(code);
    await step('kill', () => one.kill({ signal: 'SIGKILL' }));
    await step('next exit', () => next);
    await step('after the exit', state);
    await step('remove', () => one.remove());
  } finally {
    for (const c of [one, two]) await c.remove({ force: true }).catch(() => undefined);
  }
  return out;
}

/** Where versions of the engine differ in words, the fake one has one of them. */
function sameWords([step, status, text]: Outcome): Outcome {
  return [
    step,
    status,
    text
      .replace(/^failed to set up container networking: |^Cannot kill container: [^:]+: /, '')
      .replace(/ \((ID|[0-9a-f]{64})\): /, ': ')
      .replace(/Bind for [^ ]+:PORT/, 'Bind for HOST:PORT'),
  ];
}

engineSuite('the fake engine answers as the real one', (real) => {
  it('G-8 the same calls give the same statuses and words', async () => {
    const name = uniqueName('twin');
    await real.pushImage({ name, tag: 'v1' });
    const reference = `127.0.0.1:${real.registry.port}/${name}:v1`;
    const stream = await real.docker.pull(reference);
    for await (const _ of stream);
    const fake = await FakeEngine.start();
    fake.put('app:v1');
    try {
      const expected = await transcript(real.docker, reference, real.runId);
      const actual = await transcript(new Docker({ socketPath: fake.socketPath }), 'app:v1', real.runId);
      expect(actual.map(sameWords)).toEqual(expected.map(sameWords));
    } finally {
      await fake.close();
      await real.docker.getImage(reference).remove();
    }
  });
});
