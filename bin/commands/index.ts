/** The commands, sorted, each loaded when it is named. */
import type { Command } from '../command.ts';

export const commands: Readonly<Record<string, () => Promise<{ default: Command }>>> = {
  doctor: () => import('./doctor.ts'),
  explain: () => import('./explain.ts'),
  ledger: () => import('./ledger.ts'),
  plan: () => import('./plan.ts'),
  run: () => import('./run.ts'),
  simulate: () => import('./simulate.ts'),
};
