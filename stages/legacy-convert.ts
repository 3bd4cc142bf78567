/**
 * legacy-convert: write each answered item as a strict legacy result, with its whole conversation.
 *
 *   $ fw legacy-convert fixtures/decided.ndjson | jq -c '[.prompt_id, .ordering, .final_output == .all_agent_outputs[-1]]'
 *   [37,"risk_manager,data_science,regulatory,consumer_advocate",true]
 *
 * Reads   { id, row, prompt, ordering, steps, decision }
 * Writes  { mode, initial_prompt, conversation_history, …, business_decision, prompt_id, ordering, timestamp }
 * Fails   no-row, no-steps, no-decision, not-an-item; not-strict, where the text of an answer with its recorded changes
 *         gives another one; not-accepted, where the rung is none of --accept, which takes such
 *         an item up again. Failed items never become results: they go to --failures, or are counted, and the exit code
 *         is 1.
 */

import { AGENTS_OPTION, agentsOf } from '../engine/asking/agents/asking-options.ts';
import { legacyResult, provenanceOf, timestampOf, utcOf } from '../engine/audit/legacy/legacy-result.ts';
import { findInDerivation } from '../engine/audit/legacy/strict-items.ts';
import { ACCEPT_OPTION, acceptedRungs } from '../engine/audit/verdict.ts';
import { documentFrame } from '../engine/core/files/document-output.ts';
import type { SideFile } from '../engine/core/files/side-file.ts';
import { ItemFailure, usageError } from '../engine/core/item/failure.ts';
import { carryRung, type Item, isItem, type Rung, rungOf } from '../engine/core/item/item.ts';
import type { JsonObject } from '../engine/core/json/pointer.ts';
import { carryProvenance } from '../engine/flow/provenance.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'legacy-convert',
  summary: 'Write each answered item as a strict legacy result, with its whole conversation.',
  examples: [
    'fw legacy-convert --failures failed.jsonl < items.jsonl > out.jsonl',
    'fw legacy-convert --document --provenance how.jsonl < items.jsonl > out_legacy.json',
  ],
  dropsFailures: true,
  heals: ['not-accepted'],
  frame: ({ document, model }) => (document ? documentFrame(model) : undefined),
  options: {
    ...AGENTS_OPTION,
    ...ACCEPT_OPTION,
    timestamp: {
      type: 'string',
      description:
        "Date and time of every result, e.g. 2026-03-01T09:30:00Z; written in UTC, without a zone. Default: that of the item's original legacy result, else the start of the run.",
    },
    document: {
      type: 'boolean',
      description:
        'Write one document instead of lines, sorted by prompt_id: {"metadata": {…}, "results": […], "status": "complete" | "incomplete"}.',
    },
    model: {
      type: 'string',
      description:
        'Model that fw legacy asks, and that the metadata of a document name. Default: the one that the endpoints serve.',
    },
    provenance: {
      type: 'string',
      file: 'write',
      description:
        'Write one line per result to this file: rungs, repairs and attempts of every answer. Default under fw run: a file beside each output.',
    },
  },

  async each(options, tools) {
    const timestamp = options.timestamp === undefined ? undefined : utcOf(options.timestamp);
    if (options.timestamp !== undefined && timestamp === undefined) {
      throw usageError(
        `--timestamp: expected a date and time such as 2026-03-01T09:30:00Z, found '${options.timestamp}'`,
      );
    }
    const started = utcOf(tools.started.toISOString()) as string;
    const agents = agentsOf(options, tools);
    const accept = acceptedRungs(options.accept);
    const provenance = options.provenance === undefined ? null : await fileAt(options.provenance);
    return ({ failure: _before, ...unfailed }) => {
      const item = unfailed as Item;
      if (!isItem(item) || typeof item.id !== 'string') {
        throw new ItemFailure('not-an-item', 'expected an item: an id (text), and a prompt or steps');
      }
      const result = legacyResult(item, agents, timestamp ?? timestampOf(item) ?? started);
      expectMaking(item);
      const rung = rungOf(item);
      if (!accept.has(rung)) throw notAccepted(item, rung, accept);
      const said = (): JsonObject => ({ ...provenanceOf(item, result, agents) });
      provenance?.write(said());
      // a pipeline file's output has a file of provenance beside it, whoever writes it
      if (!provenance) carryProvenance(result, said);
      return carryRung(result, rung) as Item;
    };
  },
});

async function fileAt(path: string): Promise<SideFile> {
  const { sideFile } = await import('../engine/core/files/side-file.ts');
  return sideFile(path);
}

/** Whoever writes a result and its provenance vouches for it: not where a step's text gives another answer. */
function expectMaking({ steps = [], decision }: Item): void {
  for (const [index, step] of [...steps, decision].entries()) {
    const at = index < steps.length ? `/steps/${index}` : '/decision';
    const found = step && findInDerivation({ ...step }, at);
    if (found) throw new ItemFailure(found.code, `${found.at}: expected ${found.expected}, got ${found.got}`);
  }
}

function notAccepted(item: Item, rung: Rung, accept: ReadonlySet<Rung>): ItemFailure {
  const steps = [...(item.steps ?? []), ...(item.decision ? [item.decision] : [])];
  const whose = steps.filter(step => step.rung === rung || step.saw === rung).map(({ agent }) => agent);
  const found = `${rung}${whose.length > 0 ? ` (${whose.join(', ')})` : ''}`;
  return new ItemFailure(
    'not-accepted',
    `expected one of ${[...accept].join(', ')} (--accept), found ${found}`,
  );
}
