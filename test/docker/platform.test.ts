import { expect, it } from 'vitest';
import { fitsPlatform } from '../../src/docker/platform.js';

it.each([
  ['linux/amd64', 'linux/amd64', true, 'the same'],
  ['linux/amd64', 'linux/arm64', false, 'another architecture'],
  ['linux/amd64', 'windows/amd64', false, 'another system'],
  ['linux/arm64', 'linux/arm64/v8', true, 'the image states no variant'],
  ['linux/arm64/v8', 'linux/arm64', true, 'no variant was asked for'],
  ['linux/arm/v6', 'linux/arm/v7', true, 'a machine runs lower variants'],
  ['linux/arm/v7', 'linux/arm/v6', false, 'it does not run higher ones'],
  ['linux/arm/v7', 'linux/arm64', false, 'arm is not arm64'],
  ['linux/amd64', 'linux/x86_64', true, 'as uname writes it'],
  ['linux/arm64/v8', 'Linux/aarch64', true, 'as uname writes it'],
])('case C17 an image of %s for %s: %s (%s)', (image, asked, fits) => {
  expect(fitsPlatform(image, asked)).toBe(fits);
});
