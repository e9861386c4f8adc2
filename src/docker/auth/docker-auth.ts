import * as v from 'valibot';
import type { Duration, Opt } from '../../call.js';
import { type Env, resolveEnv } from '../../env.js';
import type { AuthProvider } from '../../image/types.js';
import { abortable } from '../../internal/signals.js';
import { duration, parseOptions, path, strictObject } from '../../options.js';
import { askHelper } from './credential-helper.js';
import { defaultConfigFile, helperOf, readDockerConfig, storedIn } from './docker-config.js';
import { registryHost, serverAddress } from './registry-host.js';

/** Where {@link dockerAuth} looks, and for how long. */
export type DockerAuthOptions = Opt<{
  /** Path of Docker's `config.json`. Default: `config.json` in the folder `DOCKER_CONFIG`, else in `~/.docker`. */
  configFile: string;
  /** How long a credential helper may take before it is killed. Default 10 s */
  helperTimeout: Duration;
}>;

const OPTIONS = strictObject({ configFile: v.optional(path), helperTimeout: duration(10_000) });

/**
 * The credentials that `docker login` left (IC-14), found as Docker's own client does: a registry's own helper
 * (`credHelpers`), else the store of all (`credsStore`), else the file itself (`auths`). Exactly one of them is asked.
 *
 * Nothing is kept: each ask reads the file and runs the helper anew, so that a new login counts at once. A file that is
 * not there, or that does not know the registry, means anonymous.
 *
 * @param o - where to look, and for how long
 * @param env - `clock` is used
 * @returns a provider. It rejects with `ERR_DRIVER` when the file cannot be understood (`driver: 'docker-config'`), or
 *   when a helper is missing, fails or is late (`driver: 'docker-credential-…'`)
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function dockerAuth(o: DockerAuthOptions = {}, env: Env = {}): AuthProvider {
  const { configFile, helperTimeout: timeout } = parseOptions(OPTIONS, o);
  const { clock } = resolveEnv(env);
  return async (spelling, { signal }) => {
    const host = registryHost(spelling);
    const config = await abortable(readDockerConfig(configFile ?? defaultConfigFile()), signal);
    const helper = helperOf(config, host);
    if (helper === '') return storedIn(config, host);
    return askHelper(helper, serverAddress(host), { clock, timeout, signal });
  };
}
