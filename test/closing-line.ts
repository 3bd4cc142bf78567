/** Last lines that any log reader understands, under vitest's own summary: what failed, and the counts; and no title that floods a log. */
import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

/** characters; a table of tests names its rows, or counts them (`%#`), and does not print what they hold */
const LONGEST_TITLE = 300;

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    // named once more at the end: who is sent only the end of a log can look for them
    const failed: string[] = [];
    for (const module of modules) {
      const file = relative(process.cwd(), module.moduleId);
      if (module.state() === 'failed' && module.errors().length > 0) {
        counts.failed += 1;
        failed.push(file);
      }
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed' || state === 'failed' || state === 'skipped') counts[state] += 1;
        if (state === 'failed') failed.push(`${file} > ${test.fullName.slice(0, LONGEST_TITLE)}`);
      }
    }
    const long = modules.flatMap(module =>
      [...module.children.allTests()]
        .filter(({ name }) => name.length > LONGEST_TITLE)
        .map(({ name }) => `${module.moduleId}: ${name.slice(0, 60)}… (${name.length} characters)`),
    );
    if (long.length > 0) {
      console.log(
        `expected titles of at most ${LONGEST_TITLE} characters, found longer ones:\n${long.join('\n')}`,
      );
      process.exitCode = 1;
    }
    for (const name of failed) console.log(`failed: ${name}`);
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
    console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
  }
}
