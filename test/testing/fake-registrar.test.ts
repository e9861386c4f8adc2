import { describe, expect, it } from 'vitest';
import type { ServiceInstance } from 'handover';
import { FakeRegistrar } from 'handover/testing';

const web: ServiceInstance = { id: 'web-1', service: 'web', address: '127.0.0.1', port: 80 };

describe('FakeRegistrar', () => {
  it('SS-3 keeps what is registered and tells the truth about it', async () => {
    const registrar = new FakeRegistrar();
    expect(await registrar.confirms(web, {})).toBe(false);
    await registrar.register(web, {});
    expect([...registrar.registered]).toEqual([['web-1', web]]);
    expect(await registrar.confirms(web, {})).toBe(true);
    await registrar.deregister(web, {});
    await registrar.deregister(web, {});
    expect(registrar.registered.size).toBe(0);
    expect(registrar.calls).toEqual(['register web-1', 'deregister web-1', 'deregister web-1']);
  });

  it('G-8 fails and hangs as often as it was told, in the order it was told, and changes nothing then', async () => {
    const registrar = new FakeRegistrar();
    const mine = new Error('mine');
    registrar.failNext(1);
    registrar.hangNext(1);
    registrar.failNext(1, mine);
    await expect(registrar.register(web, {})).rejects.toThrow('does not answer');
    const abort = new AbortController();
    const hanging = registrar.register(web, { signal: abort.signal });
    await expect(registrar.deregister(web, {})).rejects.toBe(mine);
    abort.abort('late');
    await expect(hanging).rejects.toBe('late');
    expect(registrar.registered.size).toBe(0);
    await registrar.register(web, {});
    expect([...registrar.registered.keys()]).toEqual(['web-1']);
  });

  it('G-4 does not act on an aborted call', async () => {
    const registrar = new FakeRegistrar();
    await expect(registrar.register(web, { signal: AbortSignal.abort('no') })).rejects.toBe('no');
    expect([registrar.registered.size, registrar.calls]).toEqual([0, []]);
  });
});
