/** The commands, sorted, each loaded when it is named. */
import type { Command } from '../../engine/flow/command.ts';

export const commands: Readonly<Record<string, () => Promise<{ default: Command }>>> = {
  batch: () => import('./batch.ts'),
  bench: () => import('../../products/measure/bench/bench-command.ts'),
  compare: () => import('../../products/report/compare-command.ts'),
  completion: async () => ({ default: (await import('./completion.ts')).completionOf(commands) }),
  demo: () => import('./demo.ts'),
  doctor: () => import('../../products/measure/doctor/doctor-command.ts'),
  explain: () => import('./explain.ts'),
  init: () => import('./init.ts'),
  keys: () => import('../../products/serve/keys-command.ts'),
  ledger: () => import('../../products/records/ledger-command.ts'),
  plan: () => import('../../products/plan/plan-command.ts'),
  report: () => import('../../products/report/report-command.ts'),
  run: () => import('./run.ts'),
  serve: () => import('../../products/serve/serve-command.ts'),
  simulate: () => import('../../products/simulator/simulate-command.ts'),
  tune: () => import('../../products/measure/tune/tune-command.ts'),
  view: () => import('../../products/view/view-command.ts'),
  work: () => import('../../products/workers/work-command.ts'),
};
