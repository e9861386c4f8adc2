export { freePort } from '../../../examples/demo/free-port.js';
