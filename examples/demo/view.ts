import type { HandoverEvent, Progress } from 'handover';
import type { Update } from './run.js';
import { comparison, fit, legend, progressLine, timeline } from './text.js';
import type { World } from './world.js';

/** What a person sees of the demo. */
export interface View {
  readonly onEvent: (event: HandoverEvent) => void;
  begin(world: World): void;
  update(name: string): void;
  end(rows: readonly { readonly name: string; readonly update: Update }[]): void;
  /** Leaves the terminal as it was. */
  close(): void;
}

/** Says nothing: `--json`. */
export const silent: View = {
  onEvent: () => undefined,
  begin: () => undefined,
  update: () => undefined,
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
  #drawn = 0;

  constructor(private readonly screen: Screen) {}

  readonly onEvent = (event: HandoverEvent): void => {
    if (event.type === 'alloc:changed') this.#changed(event);
    if (event.type === 'alloc:task') this.#progress(event.alloc.id, event.alloc.tasks[event.task]?.progress);
    if (event.type === 'warning') this.#say(`  ${event.subject}: ${event.reason.message}`);
  };

  begin({ what }: World): void {
    this.#say(`An update of ${what}, while a client asks every 5 ms.`);
  }

  update(name: string): void {
    this.#live.clear();
    this.#say('');
    this.#say(name);
  }

  end(rows: readonly { readonly name: string; readonly update: Update }[]): void {
    this.#live.clear();
    const scale = Math.max(...rows.flatMap(({ update }) => update.spans.map(({ to }) => to)));
    for (const { name, update } of rows) {
      this.#say('');
      this.#say(`${name}, ${(scale / 1_000).toFixed(1)} s from left to right`);
      for (const line of timeline(update, scale, this.#width)) this.#say(line);
    }
    for (const line of ['', ...legend(this.#width), '', 'Out of service:']) this.#say(line);
    for (const line of comparison(rows, this.#width)) this.#say(line);
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
    else this.#say(fit(`  ${id}: ${from} → ${state} (${reason.message})`, this.#width));
  }

  #progress(id: string, progress: Progress | undefined): void {
    if (progress === undefined || this.screen.isTTY !== true) return;
    this.#live.set(id, `prestarting, ${progressLine(progress, this.#width - id.length - 18)}`);
    this.#draw();
  }

  /** A line that stays; what is drawn in place goes below it. */
  #say(line: string): void {
    this.#erase();
    this.screen.write(`${fit(line, this.#width)}\n`);
    if (this.screen.isTTY === true) this.#draw();
  }

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
