import type { Call } from '../call.js';
import { HandoverError } from '../errors.js';
import type { ContainerInfo } from './container-info.js';
import type { Containers } from './driver-containers.js';
import { ownedBy, uniqueName } from './driver-labels.js';
import { isEngineFault } from './engine-fault.js';

/**
 * Takes a fixed name for a container (DP-7). If a container of ours that does not run holds it, that one goes back to
 * its unique name; it may have done so since we looked, hence the second try.
 *
 * @throws HandoverError `ERR_NAME_TAKEN`
 */
export async function takeName(containers: Containers, id: string, name: string, call: Call): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await containers.rename(id, name, call);
      return;
    } catch (error) {
      if (!isEngineFault(error, 409)) throw error;
      const holder = await containers.inspect(name, call);
      if (holder === undefined && tries === 1) continue;
      const owned = holder && ownedBy(holder.labels);
      if (holder === undefined || owned === undefined || holder.running || tries === 2) {
        throw nameTaken(name, holder, error);
      }
      await containers.rename(holder.id, uniqueName(owned), call);
    }
  }
}

/**
 * Refuses early a name that a stranger holds: nobody but its owner can clear the way, and the previous task has not
 * been touched yet. One of ours may well hold it, since it will have ended by then.
 *
 * @throws HandoverError `ERR_NAME_TAKEN`
 */
export async function refuseStranger(containers: Containers, name: string, call: Call): Promise<void> {
  const holder = await containers.inspect(name, call);
  if (holder !== undefined && ownedBy(holder.labels) === undefined) throw nameTaken(name, holder);
}

export function nameTaken(name: string, holder: ContainerInfo | undefined, cause?: unknown): HandoverError {
  const owned = holder && ownedBy(holder.labels);
  const id = holder?.id.slice(0, 12) ?? 'unknown';
  const by = owned === undefined ? id : `${owned.allocId}/${owned.task}`;
  const who = owned === undefined ? '' : ` of ${by}`;
  const advice = owned === undefined ? 'remove or rename it, or choose another name' : 'stop that one first';
  return new HandoverError('ERR_NAME_TAKEN', `The name ${name} is held by container ${id}${who}: ${advice}`, {
    details: { name, by },
    cause,
  });
}
