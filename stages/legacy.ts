/** legacy: ask for missing decisions, then write legacy results: `synthesize-decision | legacy-convert`. */
import type { StageRow } from '../engine/flow/stage.ts';
import legacyConvert from './legacy-convert.ts';
import synthesizeDecision from './synthesize-decision.ts';

const legacy: StageRow = {
  name: 'legacy',
  summary: 'Ask for missing decisions, then write legacy results: synthesize-decision | legacy-convert.',
  examples: ['fw chain --endpoint http://gpu1:8005/v1 < items.jsonl | fw legacy > out.jsonl'],
  row: [synthesizeDecision, legacyConvert],
};
export default legacy;
