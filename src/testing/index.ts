/**
 * Fakes and suites for testing an orchestrator in-process.
 *
 * @packageDocumentation
 */
export { type EventLog, eventLog } from './event-log.js';
export { FakeClock } from './fake-clock.js';
export type { FakeContainer, FakeContainerState, FakeHostConfig } from './fake-engine/container.js';
export { FakeEngine } from './fake-engine/fake-engine.js';
export type { FakeFault, FakeFaultMatch } from './fake-engine/faults.js';
export type { FakeImage, FakeImageOptions } from './fake-engine/images.js';
export { FakeHost } from './fake-host.js';
export type { FakeImages } from './fake-images.js';
export { FakeRegistrar } from './fake-registrar.js';
export type { FakeScript } from './fake-script.js';
export type { FakeSpec } from './fake-world.js';
export { type Mortal, mortal } from './mortal.js';
export { type MemoryStore, memoryStore } from '../store/memory-store.js';
export { type TaskDriverSuite, describeTaskDriver } from './driver-suite.js';
export { type ArtifactSourceSuite, describeArtifactSource } from './source-suite.js';
export { type StateStoreSuite, describeStateStore } from './store-suite.js';
export type { SuiteOptions, SuiteRunner } from './suite-runner.js';
