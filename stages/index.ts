/** The stages, sorted, each loaded when it is named. */
import type { StageList } from '../engine/flow/stage.ts';

export const stages: StageList = {
  'agent-step': () => import('./agent-step.ts'),
  chain: () => import('./chain.ts'),
  export: () => import('./export.ts'),
  'fix-escapes': () => import('./fix-escapes.ts'),
  ingest: () => import('./ingest.ts'),
  legacy: () => import('./legacy.ts'),
  'legacy-convert': () => import('./legacy-convert.ts'),
  merge: () => import('./merge.ts'),
  'null-fix': () => import('./null-fix.ts'),
  request: () => import('./request.ts'),
  select: () => import('./select.ts'),
  'synthesize-decision': () => import('./synthesize-decision.ts'),
  validate: () => import('./validate.ts'),
  verify: () => import('./verify.ts'),
};
