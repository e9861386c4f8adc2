import type { Labels } from './driver-labels.js';
import { type Json, merge } from './merge.js';
import { bindingsOf } from './published.js';
import { type Field, FIELDS } from './spec-fields.js';
import type { DockerSpec } from './spec.js';

/**
 * The body of `POST /containers/create`. The restart policy is `no`: the engine must not start again what we stop
 * (DP-8). Ports are only bound by the engine at the start, so the body may name ones that are still in use.
 *
 * @param runnable - pins the leased content (DP-6)
 */
export function createBody(spec: DockerSpec, runnable: string, labels: Labels): object {
  const bindings = bindingsOf(spec);
  const ours: Json = {
    // An engine publishes only what is exposed as well.
    ExposedPorts: Object.fromEntries(Object.keys(bindings).map((port) => [port, {}])),
    HostConfig: { RestartPolicy: { Name: 'no' }, PortBindings: bindings },
  };
  const fields = FIELDS.map(({ raw, of }) => nested(raw, of(spec)));
  return [...fields, spec.create ?? {}, { Image: runnable, Labels: labels }].reduce(merge, ours);
}

function nested([outer, inner]: Field['raw'], value: unknown): Json {
  return { [outer]: inner === undefined || value === undefined ? value : { [inner]: value } };
}
