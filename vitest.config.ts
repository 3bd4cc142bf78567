import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** files that put something in the place of a module, or look at the memory or the descriptors of their process */
const ALONE = [
  'test/ledger/lock.test.ts',
  'test/ledger/writer.test.ts',
  'test/pool/bounds.test.ts',
  'test/pool/descriptors.test.ts',
];

/** Files that take longest, and those that mostly wait: begun first, so that none of them is left with one core at the end. */
const FIRST = [
  'tune/command',
  'cases',
  'pages',
  'progress/terminal',
  'deploy/templates',
  'crash/points',
  'bin/files',
  'server/fairness',
  'crash/stops',
  'pipe/ends',
  'pipe/main',
  'doctor/command',
  'progress/metrics',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const at = FIRST.findIndex(name => moduleId.endsWith(`/test/${name}.test.ts`));
      return at < 0 ? FIRST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => placeOf(a) - placeOf(b));
  }
}

const common = {
  setupFiles: ['test/clean.ts'],
  // far beyond what any of them takes: beside other work it may be ten times that
  testTimeout: 600_000,
  hookTimeout: 600_000,
  // vitest's own is one second, which a busy machine takes; what is waited for has no time of its own anywhere in test/
  expect: { poll: { timeout: 300_000 } },
};

export default defineConfig({
  test: {
    globalSetup: ['test/build.ts'],
    reporters: ['default', './test/closing-line.ts'],
    // vitest's own would be one fewer than there are cores; the tests wait for processes, for each other and for sockets
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...common,
          name: 'shared',
          include: ['test/**/*.test.ts'],
          exclude: ALONE,
          // files that follow each other in a process share its modules: loading them anew takes half a second each
          isolate: false,
          // what tests make is short-lived: with room for it the collector takes half as long
          execArgv: ['--max-semi-space-size=64'],
        },
      },
      { test: { ...common, name: 'alone', include: ALONE } },
    ],
  },
});
