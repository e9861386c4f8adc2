/* Pure functions from facts to lines of text. */
import type { Progress } from 'handover';
import type { Update } from './run.js';

/** How a state looks in the timeline; what is not named has no bar. */
const BARS: Readonly<Record<string, string>> = {
  prestarting: '░',
  prepared: '▒',
  waiting: '▒',
  starting: '▓',
  running: '█',
  held: '█',
  draining: '▆',
  stopping: '▃',
};

/** A bar of `width` characters. */
export function bar(share: number, width: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * width);
  return '█'.repeat(full) + '░'.repeat(width - full);
}

/** How far a download is: `downloading ████░░░░ 52 %  3.1/6.0 MB`. */
export function progressLine({ phase, bytes: { done, total } }: Progress, width: number): string {
  if (phase !== 'downloading' || total === undefined || total === 0) return phase;
  const share = done / total;
  const tail = `${String(Math.round(share * 100)).padStart(3)} %  ${megabytes(done)}/${megabytes(total)} MB`;
  const room = width - phase.length - tail.length - 3;
  return room < 5 ? `${phase} ${tail}` : `${phase} ${bar(share, Math.min(room, 40))} ${tail}`;
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/** The updates that are compared. */
export type Rows = readonly { readonly name: string; readonly update: Update }[];

/** Both outages side by side, longest as wide as the room allows. One that was not over is twice as long as any other. */
export function comparison(rows: Rows, width: number): string[] {
  const known = Math.max(1, ...rows.map(({ update }) => update.outageMs ?? 0));
  const longest = rows.some(({ update }) => update.outageMs === null) ? 2 * known : known;
  const names = Math.max(...rows.map(({ name }) => name.length));
  return rows.map(({ name, update: { outageMs, failed, requests } }) => {
    const facts = `${outageMs === null ? 'not over' : `${outageMs} ms`}  ${failed} of ${requests} requests failed`;
    const room = Math.min(50, width - names - facts.length - 4);
    const drawn = room < 4 ? '' : `${bar((outageMs ?? longest) / longest, room).replaceAll('░', ' ')}  `;
    return fit(`${name.padEnd(names)}  ${drawn}${facts}`, width);
  });
}

/** What came of the updates that did not succeed, and why; nothing when both did. */
export function outcomes(rows: Rows): string[] {
  return rows.flatMap(({ name, update: { outcome, cause } }) =>
    outcome === 'replaced' ? [] : ['', `${name}: ${outcome}${cause === undefined ? '' : `, because: ${cause}`}`],
  );
}

/** One row for each version, time from left to right, all updates on the same scale. */
export function timeline({ spans }: Update, scaleMs: number, width: number): string[] {
  const room = Math.max(10, width - 4);
  const column = (ms: number): number => Math.round((ms / scaleMs) * room);
  const rows = (['v1', 'v2'] as const).map((version) => {
    const cells = new Array<string>(room).fill(' ');
    for (const { state, from, to } of spans.filter((span) => span.version === version)) {
      const mark = BARS[state];
      if (mark === undefined) continue;
      // A state that was there is seen, however short it was.
      const end = Math.max(column(from) + 1, column(to));
      for (let i = column(from); i < Math.min(end, room); i++) cells[i] = mark;
    }
    return `${version}  ${cells.join('')}`.trimEnd();
  });
  return rows;
}

/** What the marks of a timeline mean. */
export function legend(width: number): string[] {
  const words = ['░ prestarting', '▒ prepared', '▓ starting', '█ running', '▆ draining', '▃ stopping'];
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && `${last}  ${word}`.length <= width) lines[lines.length - 1] = `${last}  ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** At most `width` characters. */
export function fit(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, Math.max(0, width - 1))}…`;
}
