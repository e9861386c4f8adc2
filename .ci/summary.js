// Adds up the JSON reports of all test runs in a folder, prints `N passed, N failed, N skipped`, and fails when a test
// failed or none ran.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.argv[2];
const total = { passed: 0, failed: 0, skipped: 0 };
for (const name of readdirSync(folder)) {
  const report = JSON.parse(readFileSync(join(folder, name), 'utf8'));
  // A file that fails before its first test counts as one.
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.every((test) => test.status !== 'failed'),
  );
  total.passed += report.numPassedTests;
  total.failed += report.numFailedTests + broken.length;
  total.skipped += report.numPendingTests + report.numTodoTests;
}
process.stdout.write(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped\n`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
