import type { PrestartContext } from '../driver/driver.js';
import { HandoverError } from '../errors.js';
import type { CreateOptions } from './create-options.js';
import { clash } from '../driver/resources.js';
import type { Containers } from './driver-containers.js';
import { ownedBy } from './driver-labels.js';
import { refuseStranger } from './driver-name.js';
import { fixedPorts } from './published.js';
import type { DockerSpec } from './spec.js';

type Ask = PrestartContext<unknown> & { readonly spec: DockerSpec };

/**
 * Looks for what the engine would refuse only at the start, when the previous task has been stopped already. Whatever
 * one of ours holds is no obstacle: it will have ended by then.
 *
 * @throws HandoverError `ERR_NAME_TAKEN`, `ERR_DRIVER`
 */
export async function checkStart(containers: Containers, ctx: Ask): Promise<void> {
  if (ctx.spec.name !== undefined) await refuseStranger(containers, ctx.spec.name, ctx);
  await findNetworks(containers, ctx);
  await refuseTakenPorts(containers, ctx);
}

/** An `ERR_DRIVER` of a prestart that has to end before it has made anything. */
export function cannotPrepare(owner: string, why: string, facts: Readonly<Record<string, string>>): HandoverError {
  return new HandoverError('ERR_DRIVER', `Cannot prepare ${owner}: ${why}`, {
    details: { driver: 'docker', operation: 'prestart', owner, ...facts },
  });
}

const SHARED = 'container:';
/** Modes that name no network which could be looked up. */
const MODES = ['', 'default', 'nat'];

async function findNetworks(containers: Containers, ctx: Ask): Promise<void> {
  const { networks, create } = ctx.spec;
  const { HostConfig, NetworkingConfig } = (create ?? {}) as CreateOptions;
  const named = typeof networks === 'object' ? Object.keys(networks) : [];
  const mode = HostConfig?.NetworkMode ?? '';
  if (mode.startsWith(SHARED)) {
    const container = mode.slice(SHARED.length);
    if ((await containers.inspect(container, ctx)) !== undefined) return;
    throw cannotPrepare(ctx.owner, `container ${container}, whose network it is to share, does not exist`, {
      container,
    });
  }
  for (const network of new Set([mode, ...named, ...Object.keys(NetworkingConfig?.EndpointsConfig ?? {})])) {
    if (MODES.includes(network) || (await containers.hasNetwork(network, ctx))) continue;
    throw cannotPrepare(ctx.owner, `network ${network} does not exist; create it first`, { network });
  }
}

async function refuseTakenPorts(containers: Containers, ctx: Ask): Promise<void> {
  const wanted = fixedPorts(ctx.spec);
  if (wanted.length === 0) return;
  for (const { id, labels, published } of await containers.running(ctx)) {
    if (ownedBy(labels) !== undefined) continue;
    const taken = wanted.find((port) => published.some((other) => clash(port, other)));
    if (taken === undefined) continue;
    const by = id.slice(0, 12);
    const why = `port ${taken.key} of the host is published by container ${by}, which is not ours; stop that one, or choose another port`;
    throw cannotPrepare(ctx.owner, why, { port: taken.key, by });
  }
}
