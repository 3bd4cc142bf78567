/** The commands, sorted, each loaded when it is named. */
import type { Command } from '../command.ts';

export const commands: Readonly<Record<string, () => Promise<{ default: Command }>>> = {
  batch: () => import('./batch.ts'),
  bench: () => import('./bench/index.ts'),
  compare: () => import('./compare.ts'),
  completion: async () => ({ default: (await import('./completion.ts')).completionOf(commands) }),
  demo: () => import('./demo.ts'),
  doctor: () => import('./doctor.ts'),
  explain: () => import('./explain.ts'),
  init: () => import('./init.ts'),
  keys: () => import('./keys.ts'),
  ledger: () => import('./ledger/index.ts'),
  plan: () => import('./plan.ts'),
  report: () => import('./report.ts'),
  run: () => import('./run.ts'),
  serve: () => import('./serve.ts'),
  simulate: () => import('./simulate.ts'),
  tune: () => import('./tune.ts'),
  work: () => import('./work.ts'),
};
