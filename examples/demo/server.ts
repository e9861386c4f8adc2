/**
 * The program that is updated: plain JavaScript without dependencies. It takes a moment to start, answers with its
 * version, and finishes the requests in flight when it is asked to end.
 *
 * @param version - what it answers
 * @param padding - bytes that make the file worth a slow download
 */
export function serverSource(version: string, padding: number): string {
  return `
import { createServer } from 'node:http';
const server = createServer((request, response) => response.end(${JSON.stringify(version)} + '\\n'));
setTimeout(() => server.listen(Number(process.env.PORT), '127.0.0.1'), 150);
process.once('SIGTERM', () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
/* ${'.'.repeat(padding)} */
`;
}
