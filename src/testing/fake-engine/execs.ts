import { createHash } from 'node:crypto';
import type { Clock } from '../../clock.js';
import { EngineProblem } from './answer.js';
import type { FakeContainer } from './container.js';
import { frame } from './output.js';
import { type Deed, deedOf } from './program.js';

interface Exec {
  readonly deed: Deed;
  code: number | undefined;
}

/** The commands that are run in the containers of a fake engine. */
export class EngineExecs {
  readonly #execs = new Map<string, Exec>();

  constructor(private readonly clock: Clock) {}

  create({ id, state }: FakeContainer, argv: readonly string[]): object {
    if (state === 'paused')
      throw new EngineProblem(409, `Container ${id} is paused, unpause the container before exec`);
    if (state !== 'running') throw new EngineProblem(409, `Container ${id} is not running`);
    const exec = createHash('sha256').update(`exec ${this.#execs.size}`).digest('hex');
    this.#execs.set(exec, { deed: deedOf(argv) ?? { writes: [], code: 0, after: 0 }, code: undefined });
    return { Id: exec };
  }

  /** Its output; it has ended a moment later. */
  async *start(id: string): AsyncGenerator<Buffer, void> {
    const exec = this.#get(id);
    for (const [stream, text] of exec.deed.writes) if (text !== '') yield frame({ stream, bytes: Buffer.from(text) });
    await new Promise<void>((done) => void this.clock.timer(exec.deed.after, done, { keepAlive: false }));
    exec.code = exec.deed.code;
  }

  inspect(id: string): object {
    const { code } = this.#get(id);
    return { ID: id, Running: code === undefined, ExitCode: code ?? null };
  }

  #get(id: string): Exec {
    const exec = this.#execs.get(id);
    if (exec === undefined) throw new EngineProblem(404, `No such exec instance: ${id}`);
    return exec;
  }
}
