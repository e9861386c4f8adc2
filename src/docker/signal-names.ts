export { signalName, signalNumber } from '../internal/signal-names.js';
