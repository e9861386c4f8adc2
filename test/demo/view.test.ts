import { AllocLifecycle } from 'handover';
import { FakeClock, FakeHost } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { TextView } from '../../examples/demo/view.js';
import { clearAway } from '../../examples/demo/world-process.js';

const LONG = 'a-name-that-is-longer-than-a-line-of-a-terminal-has-columns-'.repeat(2).slice(0, 110);

/** One alloc's life up to where it fails its check, shown on a screen. */
async function shown(screen: { isTTY?: boolean; columns?: number }, id = 'v2'): Promise<string[]> {
  const written: string[] = [];
  const view = new TextView({ ...screen, write: (text) => written.push(text) });
  const clock = new FakeClock();
  const env = { clock, onEvent: view.onEvent, checks: { up: async () => Promise.reject(new Error('refused')) } };
  const tasks = [{ name: 'web', driver: new FakeHost({ clock }).driver(), spec: { version: '2' } }] as const;
  const alloc = new AllocLifecycle({ id, tasks, health: { checks: [{ name: 'up', type: 'custom' }] } }, env);
  view.update('2. handover');
  await clock.until(alloc.start());
  await clock.advance(5_000);
  view.clearing();
  await clock.until(clearAway(alloc));
  view.close();
  return written;
}

describe('what a person sees of the demo', () => {
  it('a wait for health is shown with its reason, once', async () => {
    const lines = await shown({});
    const waits = lines.filter((line) => /not healthy yet, given up after 30s: Check up fails: refused\n$/.test(line));
    expect(waits).toHaveLength(1);
    expect(lines.join('')).not.toContain('its checks pass');
  });

  it('how versions end when all is over is "cleaned up", not a failure', async () => {
    const text = (await shown({})).join('');
    expect(text).toContain('cleaned up');
    expect(text).not.toMatch(/stopping|SIGKILL|failed/);
  });

  it('lines that stay are not cut, whatever the width', async () => {
    const lines = await shown({}, LONG);
    expect(lines).toContain(`  ${LONG}: starting → running (Its task runs)\n`);
    expect(lines.join('')).not.toContain('…');
  });

  it('on a terminal, what is drawn in place is cut to its width: it could not be erased otherwise', async () => {
    const lines = await shown({ isTTY: true, columns: 60 }, LONG);
    const drawn = lines.filter((line) => line.includes(LONG.slice(0, 40)));
    expect(drawn.length).toBeGreaterThan(0);
    expect(drawn.filter((line) => line.length > 61)).toEqual([]);
  });
});
