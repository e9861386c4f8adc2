import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TaskHandle } from 'handover';
import type { ProcessState } from 'handover/process';
import { describeTaskDriver } from 'handover/testing';
import { describe, it } from 'vitest';
import { TaskHost, shell, written } from './tasks.js';

let host: TaskHost;

describeTaskDriver('ProcessDriver', {
  runner: { describe, it },
  async make() {
    host = await TaskHost.open();
    return host.driver();
  },
  again: async () => host.driver(),
  spec: (version) => shell(`echo ready ${version}; exec sleep 60`, { ports: { http: 8080, admin: 8081 } }),
  exiting: () => shell('exit 3'),
  stubborn: () => shell('trap "" TERM; echo ready; for i in $(seq 60); do sleep 1; done'),
  speaking: () => shell('echo out; echo err >&2; exec sleep 60'),
  command: (code) => ['sh', '-c', `echo ran; exit ${code}`],
  hanging: () => shell('exec sleep 60', { artifact: host.origin.silent('/app') }),
  vanish: (owner) => rm(join(host.tasks, owner), { recursive: true }),
  async ready(handle) {
    await written(handle as TaskHandle<ProcessState>, 'ready');
  },
  close: () => host.close(),
});
