import Docker from 'dockerode';
import { dockerImages } from 'handover/docker';
import { expect, it } from 'vitest';

it('IC-21 the images of each engine may have an id of their own, for engines that share a store', () => {
  const docker = new Docker();
  expect(dockerImages(docker).id).toBe('docker');
  expect(dockerImages(docker, {}, { id: 'east' }).id).toBe('east');
  for (const [o, path] of [
    [{ id: '' }, 'id'],
    [{ ID: 'east' }, 'ID'],
    [null, '(options)'],
  ] as const) {
    expect(() => dockerImages(docker, {}, o as never)).toThrow(expect.objectContaining({ details: { path } }));
  }
});
