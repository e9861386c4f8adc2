import type { AllocStatus, HandoverEvent, Progress } from 'handover';
import { type Rows, comparison, fit, legend, outcomes, progressLine, timeline } from './text.js';
import { HEALTHY_DEADLINE, type World } from './world.js';

/** What a person sees of the demo. */
export interface View {
  readonly onEvent: (event: HandoverEvent) => void;
  begin(world: World): void;
  update(name: string): void;
  /** The update is over: how its versions end now is no news, and would look like failures. */
  clearing(): void;
  end(rows: Rows): void;
  /** Leaves the terminal as it was. */
  close(): void;
}

/** Says nothing: `--json`. */
export const silent: View = {
  onEvent: () => undefined,
  begin: () => undefined,
  update: () => undefined,
  clearing: () => undefined,
  end: () => undefined,
  close: () => undefined,
};

/** The part of a terminal that is used; a test gives its own. */
export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Lines for a person; on a terminal the last lines show how far things are, and are drawn again in place. */
export class TextView implements View {
  readonly #live = new Map<string, string>();
  /** By alloc: the last that was said of what it waits for. */
  readonly #waits = new Map<string, string>();
  #drawn = 0;
  #clearing = false;

  constructor(private readonly screen: Screen) {}

  readonly onEvent = (event: HandoverEvent): void => {
    if (event.type === 'warning') this.#say(`  ${event.subject}: ${event.reason.message}`);
    if (this.#clearing) return;
    if (event.type === 'alloc:changed') this.#changed(event);
    if (event.type === 'alloc:task') this.#progress(event.alloc.id, event.alloc.tasks[event.task]?.progress);
    if (event.type === 'alloc:health') this.#health(event.alloc);
  };

  begin({ what }: World): void {
    this.#say(`An update of ${what}, while a client asks every 5 ms.`);
  }

  update(name: string): void {
    this.#clearing = false;
    this.#say('');
    this.#say(name);
  }

  clearing(): void {
    this.#clearing = true;
    this.#live.clear();
    this.#waits.clear();
    this.#say('  cleaned up: both versions are taken away again');
  }

  end(rows: Rows): void {
    const scale = Math.max(...rows.flatMap(({ update }) => update.spans.map(({ to }) => to)));
    for (const { name, update } of rows) {
      this.#say('');
      this.#say(`${name}, ${(scale / 1_000).toFixed(1)} s from left to right`);
      for (const line of timeline(update, scale, this.#width)) this.#say(line);
    }
    for (const line of ['', ...legend(this.#width), '', 'Out of service:']) this.#say(line);
    for (const line of comparison(rows, this.#width)) this.#say(line);
    for (const line of outcomes(rows)) this.#say(line);
  }

  close(): void {
    this.#live.clear();
    this.#erase();
  }

  get #width(): number {
    return this.screen.columns ?? 80;
  }

  #changed({ from, alloc: { id, state, reason, terminal } }: HandoverEvent<'alloc:changed'>): void {
    if (terminal) this.#live.delete(id);
    else this.#live.set(id, state);
    if (this.screen.isTTY === true && !terminal) this.#draw();
    else this.#say(`  ${id}: ${from} → ${state} (${reason.message})`);
  }

  #progress(id: string, progress: Progress | undefined): void {
    if (progress === undefined) return;
    const { phase, lastError } = progress;
    const line = progressLine(progress, this.#width - id.length - 18);
    const why = lastError === undefined ? '' : `, ${lastError.message}`;
    if (this.screen.isTTY === true) this.#wait(id, `prestarting, ${line}${why}`);
    else if (phase === 'downloading' || phase === 'retrying') this.#wait(id, `${phase}${why}`);
  }

  /** A version that runs and does not answer yet: the word of its checks says why. */
  #health({ id, health, checks }: AllocStatus): void {
    if (!this.#live.has(id)) return;
    const failing = Object.values(checks).filter(({ code }) => code !== 'check-passing');
    const words = failing.map(({ message }) => message).join('; ');
    if (health === 'passing') this.#wait(id, 'its checks pass');
    else if (words !== '') this.#wait(id, `not healthy yet, given up after ${HEALTHY_DEADLINE}: ${words}`);
  }

  /** What an alloc waits for: in place on a terminal, else one line for each change. */
  #wait(id: string, text: string): void {
    if (this.screen.isTTY === true) {
      this.#live.set(id, text);
      this.#draw();
    } else if (this.#waits.get(id) !== text) {
      this.#waits.set(id, text);
      this.#say(`  ${id}: ${text}`);
    }
  }

  /** A line that stays, as long as it is; what is drawn in place goes below it. */
  #say(line: string): void {
    this.#erase();
    this.screen.write(`${line}\n`);
    if (this.screen.isTTY === true) this.#draw();
  }

  /** Cut to the width: a line that wraps could not be erased again. */
  #draw(): void {
    this.#erase();
    for (const [id, text] of this.#live) this.screen.write(`${fit(`  ${id}: ${text}`, this.#width)}\n`);
    this.#drawn = this.#live.size;
  }

  #erase(): void {
    if (this.#drawn > 0) this.screen.write(`\u001b[${this.#drawn}A\u001b[0J`);
    this.#drawn = 0;
  }
}
