/**
 * Fakes and suites for testing an orchestrator in-process.
 *
 * @packageDocumentation
 */
export { FakeClock } from './fake-clock.js';
