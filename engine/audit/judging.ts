/** The options of verification that say by what a line is judged. */
import {
  type Agents,
  folderOfAgents,
  loadAgentFiles,
  loadAgents,
  packagedAgents,
} from '../asking/agents/load-agents.ts';
import { expandPaths } from '../core/files/input-files.ts';
import { COMMON } from '../flow/join.ts';
import type { OptionSchemas } from '../flow/options.ts';
import { openVouchers } from '../flow/provenance.ts';
import type { Tools } from '../flow/stage.ts';
import { ACCEPT_OPTION, acceptedRungs } from './accept.ts';
import { documentCheck, labelCheck } from './labels.ts';
import { answerSchemas } from './legacy/answer-schemas.ts';

export const JUDGE_OPTIONS = {
  ...ACCEPT_OPTION,
  agents: {
    type: 'string',
    file: 'read-folder',
    from: 'base',
    description:
      'Folder of the agents whose schemas answers must fit; default for items: FW_AGENTS, else ./agents, else the packaged FairWatch; for legacy results: the packaged FairWatch.',
  },
  decision: {
    type: 'boolean',
    default: true,
    description: 'Require the decision of the synthesis; --no-decision accepts items of chain --no-decision.',
  },
  provenance: {
    type: 'array',
    items: { type: 'string' },
    file: 'read-many',
    description:
      'File that legacy-convert --provenance wrote: it has the rungs of legacy results. Default: the one beside each FILE, such as out.jsonl.provenance.ndjson.',
  },
} as const satisfies OptionSchemas;

/** The agents of items, and of legacy results, with all that their folder says: each read when it is first needed. */
export function agentsFor(named: string | undefined, base: string): (of: 'items' | 'results') => Agents {
  const loaded = new Map<string, Agents>();
  return of => {
    const folder = of === 'results' && named === undefined ? packagedAgents() : folderOfAgents(named, base);
    const agents = loaded.get(folder) ?? loadAgents(folder);
    loaded.set(folder, agents);
    return agents;
  };
}

interface JudgeOptions {
  accept: string[];
  agents?: string;
  decision: boolean;
  provenance?: string[];
  'max-line'?: number;
}

/** What lines are judged by, as the options say. */
export async function judgeOptions(
  { accept, agents, decision, provenance, ...rest }: JudgeOptions,
  { base }: Pick<Tools, 'base'>,
) {
  const reading = { stage: 'verify', maxLine: rest['max-line'] ?? COMMON['max-line'].default };
  const vouchers = provenance && (await openVouchers(await expandPaths(provenance), reading));
  let legacyAgents: Agents | undefined;
  return {
    accept: acceptedRungs(accept),
    schemas: answerSchemas({ agents, decision }, base),
    findInLabel: labelCheck(() => {
      legacyAgents ??= loadAgentFiles(agents === undefined ? packagedAgents() : folderOfAgents(agents, base));
      return legacyAgents;
    }),
    documents: documentCheck(),
    ...(vouchers && { vouchers }),
  };
}
