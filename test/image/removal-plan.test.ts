import { expect, it } from 'vitest';
import { broughtNames } from '../../src/image/removal-plan.js';
import { ScriptedSource } from './scripted-source.js';

const source = new ScriptedSource();
const TAG = 'redis:7';
const DIGEST = 'redis@sha256:a';

it.each([
  { known: [], brought: [TAG, DIGEST], why: 'a digest that nobody had seen came with our pull' },
  { known: [DIGEST], brought: [TAG], why: 'a digest that was there before is not ours' },
])('IC-17 known before: $known, brought: $brought ($why)', ({ known, brought }) => {
  const normalise = (reference: string) => source.normalise(reference);
  const artifact = { id: 'sha256:a', references: [TAG, DIGEST] };
  expect(broughtNames(artifact, normalise(TAG), known, () => false, normalise)).toEqual(brought);
});
