/* An embedder's driver of its own kind: compiled against the packed library, never run. */
import { spawn } from 'node:child_process';
import { HandoverError, ImageCoordinator, UndoStack, prestartOnce, type Call, type DriverPrestart, type ExclusiveResource, type ExitResult, type ImageLease, type PrestartContext, type PreparedTask, type TaskDriver, type TaskHandle } from 'handover';
import { httpFiles, type FileArtifact } from 'handover/process';

export interface VmSpec { readonly kernel: string; readonly rootfs: string; readonly vcpus: number; readonly memMiB: number; readonly tap?: string }
export interface VmState { readonly pid: number; readonly startTicks: number; readonly dir: string; readonly owner: string }
interface VmPrepared extends PreparedTask { readonly dir: string; readonly kernel: ImageLease<FileArtifact>; readonly rootfs: ImageLease<FileArtifact>; readonly tap: string | undefined }

declare function makeOverlay(base: string, dir: string, call: Call): Promise<void>;
declare function removeTree(dir: string): Promise<void>;
declare function exists(path: string): Promise<boolean>;
declare function vmProcess(s: VmState): { alive(): boolean; ctrlAltDel(): Promise<void>; kill(): void; exited(call: Call): Promise<ExitResult>; address: string };
declare function scanStateDirs(): Promise<readonly { allocId: string; task: string; specHash: string; state: VmState; started: boolean }[]>;

// prestart alone is already useful: my old code starts the VM by itself from what was prepared
export class VmPrestart implements DriverPrestart<VmSpec, VmPrepared> {
  readonly name: string = 'microvm';
  constructor(protected readonly files: ImageCoordinator<FileArtifact> = new ImageCoordinator({ source: httpFiles({ directory: '/var/lib/vm/files' }) })) {}
  parse(input: unknown): VmSpec {
    const o = input as Partial<VmSpec>;
    if (typeof o.rootfs !== 'string') throw new HandoverError('ERR_INVALID_OPTION', 'rootfs is missing: give the URL of an ext4 image', { details: { path: 'rootfs' } });
    return { kernel: o.kernel ?? 'https://files/vmlinux-6.1#sha256=…', rootfs: o.rootfs, vcpus: o.vcpus ?? 1, memMiB: o.memMiB ?? 256, ...(o.tap === undefined ? {} : { tap: o.tap }) };
  }
  exclusive(spec: VmSpec): readonly ExclusiveResource[] { return spec.tap === undefined ? [] : [{ kind: 'device', key: spec.tap, scope: 'host', needed: 'start' }]; }
  async prestart(ctx: PrestartContext<VmSpec>): Promise<VmPrepared> {
    await using undo = new UndoStack();
    const options = { owner: ctx.owner, signal: ctx.signal, onProgress: ctx.report };
    const kernel = undo.use(await this.files.acquire(ctx.spec.kernel, options));
    const rootfs = undo.use(await this.files.acquire(ctx.spec.rootfs, options));
    const dir = `/var/lib/vm/${ctx.allocId}/${ctx.task}`;
    undo.defer(() => removeTree(dir));
    await makeOverlay(rootfs.artifact.path, dir, ctx);
    const all = undo.move(); // from here on discard() owns the clean-up
    const discard = () => all[Symbol.asyncDispose]();
    return { owner: ctx.owner, specHash: ctx.specHash, dir, kernel, rootfs, tap: ctx.spec.tap, intact: () => exists(dir), discard, [Symbol.asyncDispose]: discard };
  }
}

export class MicroVmDriver extends VmPrestart implements TaskDriver<VmSpec, VmState, VmPrepared> {
  async start(p: VmPrepared, _call: Call): Promise<TaskHandle<VmState>> {
    const child = spawn('firecracker', ['--kernel', p.kernel.artifact.path, '--dir', p.dir], { detached: true, stdio: 'ignore' });
    if (child.pid === undefined) throw new HandoverError('ERR_DRIVER', 'firecracker did not start', { details: { driver: this.name, operation: 'start', dir: p.dir }, retryable: true });
    return this.#handle({ pid: child.pid, startTicks: 0, dir: p.dir, owner: p.owner });
  }
  async recover(state: VmState, _call: Call & { owner: string }): Promise<TaskHandle<VmState> | undefined> { return vmProcess(state).alive() ? this.#handle(state) : undefined; }
  list(_call: Call) { return scanStateDirs(); }
  #handle(state: VmState): TaskHandle<VmState> {
    const vm = vmProcess(state);
    return {
      id: state.owner, state, stopSignal: 'SIGPWR', endpoints: { http: { address: vm.address, port: 8080 } },
      isRunning: async () => vm.alive(), wait: (call) => vm.exited(call), signal: () => vm.ctrlAltDel(), kill: async () => { vm.kill(); },
      destroy: async () => { await removeTree(state.dir); await this.files.release(state.owner); },
    };
  }
}
export const microvm = prestartOnce(new MicroVmDriver()); // keeps the class type
