import { ProcessDriver, type ProcessSpec } from 'handover/process';
import { describe, expect, it } from 'vitest';
import { environment, parseSpec } from '../../src/process/spec.js';
import { TaskFolder, contentName } from '../../src/process/task-folder.js';

const driver = new ProcessDriver({ directory: '/nowhere' });

describe('ProcessSpec', () => {
  it.each<[unknown, string]>([
    [{}, 'argv'],
    [{ argv: [] }, 'argv.0'],
    [{ argv: [''] }, 'argv.0'],
    [{ argv: ['a', 'b\0'] }, 'argv.1'],
    [{ argv: 'node' }, 'argv'],
    [{ argv: ['a'], ports: { http: 0 } }, 'ports.http'],
    [{ argv: ['a'], ports: { http: 65_536 } }, 'ports.http'],
    [{ argv: ['a'], ports: { http: 80.5 } }, 'ports.http'],
    [{ argv: ['a'], ports: { a: 80, b: 80 } }, 'ports'],
    [{ argv: ['a'], env: { A: 1 } }, 'env.A'],
    [{ argv: ['a'], env: { 'A=B': '1' } }, 'env.A=B'],
    [{ argv: ['a'], uid: 0 }, 'gid'],
    [{ argv: ['a'], gid: 0 }, 'uid'],
    [{ argv: ['a'], uid: -1, gid: 0 }, 'uid'],
    [{ argv: ['a'], uid: 0, gid: 2 ** 32 - 1 }, 'gid'],
    [{ argv: ['a'], uid: 'root', gid: 0 }, 'uid'],
    [{ argv: ['a'], unpack: true }, 'unpack'],
    [{ argv: ['a'], artifact: 'https://h/a', unpack: 'yes' }, 'unpack'],
    [{ argv: ['a', 'x'.repeat(131_072)] }, 'argv.1'],
    [{ argv: ['a', 'é'.repeat(65_536)] }, 'argv.1'],
    [{ argv: ['a'], env: { AB: 'x'.repeat(131_069) } }, 'env.AB'],
    [{ argv: ['a'], env: new Map([['A', '1']]) }, 'env'],
    [{ argv: ['a'], ports: new Map([['http', 80]]) }, 'ports'],
    [JSON.parse('{ "argv": ["a"], "env": { "__proto__": "1" } }'), 'env.__proto__'],
    [{ argv: ['a'], artifact: 'https://h/.handover.json' }, 'artifact'],
    [{ argv: ['a'], artifact: 'https://h/a/stdout.log#sha256=00' }, 'artifact'],
    [{ argv: ['a'], artifact: 'https://h/stderr.log' }, 'artifact'],
    [{ argv: ['a'], artifact: 'https://h/app', stdout: './app' }, 'artifact'],
    [null, '(options)'],
  ])('G-2 %.80j is refused at %s', (spec, path) => {
    expect(() => driver.parse(spec)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  });

  it('DP-10 an artifact that cannot be placed is named', () => {
    expect(() => driver.parse({ argv: ['a'], artifact: 'https://h/stdout.log' })).toThrow(
      'Option artifact: would be placed as stdout.log, where stdout goes; give stdout another file',
    );
    const moved = { argv: ['a'], artifact: 'https://h/stdout.log', stdout: 'out' };
    expect(driver.parse(moved)).toMatchObject(moved);
  });

  it('G-2 undefined is the default, and parsing twice changes nothing', () => {
    const spec = driver.parse({ argv: ['a'], cwd: undefined, ports: undefined });
    expect(spec).toEqual(driver.parse({ argv: ['a'] }));
    expect(driver.parse(spec)).toEqual(spec);
  });

  it('DP-7 its ports are exclusive on the host from the start on', () => {
    expect(driver.exclusive({ argv: ['a'], ports: { http: 8080, admin: 8081 } })).toEqual([
      { kind: 'port', key: '8080/tcp', scope: 'host', needed: 'start' },
      { kind: 'port', key: '8081/tcp', scope: 'host', needed: 'start' },
    ]);
    expect(driver.exclusive({ argv: ['a'] })).toEqual([]);
  });

  it.each<[Partial<ProcessSpec>, Record<string, string>]>([
    [{}, { PATH: '/bin', HOME: '/me' }],
    [{ env: { PATH: '/other', A: '1' } }, { PATH: '/other', HOME: '/me', A: '1' }],
    [{ inheritEnv: ['SECRET', 'UNSET'] }, { SECRET: 's' }],
    [{ inheritEnv: [] }, {}],
  ])('DP-10 only what is named is inherited: %j', (spec, env) => {
    const own = { PATH: '/bin', HOME: '/me', SECRET: 's', NODE_OPTIONS: '--x' };
    expect(environment(parseSpec({ argv: ['a'], ...spec }), own)).toEqual(env);
  });
});

describe('ProcessDriver', () => {
  it.each([
    [{}, 'directory'],
    [{ directory: '' }, 'directory'],
    [{ directory: '/x', name: '' }, 'name'],
    [{ directory: '/x', artifacts: 1 }, 'artifacts'],
    [{ directory: '/x', artifacts: {} }, 'artifacts'],
    [{ directory: '/x', folder: 1 }, 'folder'],
  ])('G-2 options %j are refused at %s', (options, path) => {
    expect(() => new ProcessDriver(options as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  });
});

describe('TaskFolder', () => {
  it.each(['', '.', '..', '../up', 'a/b', '.hidden', '-rf', 'a b', 'a\0', 'x'.repeat(201)])(
    'DP-10 the name %j cannot be a folder and is refused',
    (name) => {
      const refused = expect.objectContaining({ code: 'ERR_INVALID_OPTION' }) as Error;
      expect(() => new TaskFolder('/x', name, 'main')).toThrow(refused);
      expect(() => new TaskFolder('/x', 'web', name)).toThrow(refused);
    },
  );

  it('AL-8 the id of a revert is a folder', () => {
    expect(new TaskFolder('/x', 'web-1~r1', 'main').path).toBe('/x/web-1~r1/main');
  });

  it.each([
    ['https://h/a/server.mjs', 'server.mjs'],
    ['https://h/a/server.mjs?x=/y#sha256=00', 'server.mjs'],
    ['https://h/', 'artifact'],
    ['https://h', 'artifact'],
    ['https://h/.hidden', 'artifact'],
    ['https://h/a%20b', 'artifact'],
    ['https://h/stdout.log', 'stdout.log'],
    ['https://h/%2e%2e', 'artifact'],
  ])('DP-10 %s is placed as %s', (reference, name) => {
    expect(contentName(reference)).toBe(name);
  });
});
