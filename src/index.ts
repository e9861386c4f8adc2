/**
 * Replace a running allocation by its successor without losing service.
 *
 * The core entry: the primitives and what they compose into. Engines come from their own entries
 * (`handover/docker`, `handover/process`), fakes for tests from `handover/testing`.
 *
 * @packageDocumentation
 */
export type { Call, Duration, Effective, Opt } from './call.js';
export { type Clock, systemClock } from './clock.js';
export {
  type ErrorCode,
  type ErrorDetails,
  type ErrorOf,
  HandoverError,
  findError,
  isHandoverError,
} from './errors.js';
export type { Env, Reason, Wait } from './env.js';
export type { EventMap, HandoverEvent, On } from './events.js';
// state
export type { StateStore, StoreOp } from './store/store.js';
// images
export { ImageCoordinator } from './image/coordinator.js';
export type {
  AcquireOptions,
  Artifact,
  ArtifactSource,
  AuthProvider,
  Collected,
  Credentials,
  ImageEvents,
  ImageLease,
  ImageStatus,
  NormalisedReference,
  PrefetchLease,
  PrefetchOptions,
  Progress,
  PullLimit,
  PullOptions,
  PullPolicy,
  PullReason,
  RemovalOptions,
  RetentionOptions,
} from './image/types.js';
// drivers
export type {
  AnyTaskDriver,
  DriverPrestart,
  ExclusiveResource,
  ExecResult,
  ListedTask,
  LogChunk,
  LogOptions,
  PreparedTask,
  PrestartContext,
  TaskDriver,
  TaskHandle,
} from './driver/driver.js';
export { prestartOnce } from './driver/prestart-once.js';
export { UndoStack } from './driver/undo-stack.js';
// shutdown
export { memoryRegistrar, registrars } from './shutdown/registrar.js';
export { ShutdownSequencer } from './shutdown/sequencer.js';
export type {
  ExitResult,
  Registrar,
  RunOptions,
  ServiceInstance,
  ShutdownBudget,
  ShutdownEvents,
  ShutdownHooks,
  ShutdownOptions,
  ShutdownReport,
  ShutdownRun,
  ShutdownTarget,
  StopPhase,
  StopReason,
  StopRun,
} from './shutdown/types.js';
// allocs
export { type AllocGoal, AllocLifecycle } from './alloc/lifecycle.js';
export { memoryFeed, peer } from './alloc/feed.js';
export { NextAllocWatcher } from './alloc/next.js';
export { PrevAllocWatcher } from './alloc/previous.js';
export { ALLOC_TABLE, type AllocEvent } from './alloc/states.js';
export type {
  AllocEnv,
  AllocEvents,
  AllocFeed,
  AllocPeer,
  AllocSettings,
  AllocSpec,
  AllocState,
  AllocStatus,
  AllocStopReport,
  AllocTask,
  AllocView,
  Check,
  Gate,
  HealthOptions,
  NextOutcome,
  PreviousOutcome,
  ServiceDefinition,
  Sighting,
  TaskStatus,
} from './alloc/types.js';
// compositions
export { replace } from './replace/replace.js';
export type { ReplaceEvents, ReplaceOptions, ReplaceResult, TimelineEntry } from './replace/types.js';
