/**
 * verify: check results strictly and account for each, so that whatever passes can be counted in a study.
 *
 *   $ fw verify --expect 1 --pass fixtures/decided.ndjson | jq -c '[.id, .decision.rung]'
 *   ["3d4b4b97b840","clean"]
 *
 * Reads   items, legacy results (a line each, or whole documents), other records
 * Writes  nothing; with --pass every line, the refused ones failed
 * Fails   not-strict, schema-mismatch, unknown-agent, sentinel-text, placeholder-text, not-accepted. Ids that are
 *         missing, unknown or there twice, a count other than --expect and an empty input are findings: exit code 1, as
 *         with failed lines.
 */
import { writeFileSync } from 'node:fs';
import _ from 'highland';
import type { OnRecord } from '../engine/audit/on-record.ts';
import {
  agentsFor,
  describeVerdict,
  JUDGE_OPTIONS,
  judgeLines,
  judgeOptions,
  reportOf,
} from '../engine/audit/verdict.ts';
import { flagsFor } from '../engine/core/files/saving.ts';
import { ioError } from '../engine/core/item/failure.ts';
import type { Item } from '../engine/core/item/item.ts';
import { COMMON } from '../engine/flow/join.ts';
import { stage, type Through } from '../engine/flow/stage.ts';

export default stage({
  name: 'verify',
  summary: 'Check results strictly and account for each; exit 1 if anything is wrong.',
  examples: [
    'fw verify --expect 5760 out.jsonl',
    'fw ingest prompts.csv > asked.jsonl; fw verify --ids asked.jsonl --report verdict.json out.jsonl',
    "fw verify 'out/sequential_*_legacy.json'",
    'fw verify --ledger ledger/ items.ndjson',
  ],
  looks: true,
  judges: true,
  documents: true,
  options: {
    expect: {
      type: 'integer',
      minimum: 0,
      description: 'Number of distinct ids that must have an accepted result.',
    },
    ids: {
      type: 'string',
      file: 'read',
      description:
        'File of the ids that must each be there once, one per line: ids, items or legacy results.',
    },
    ...JUDGE_OPTIONS,
    ledger: {
      type: 'string',
      file: 'read-folder',
      description:
        'Ledger of the run: compare each answer with the recorded one, and what each agent was shown with what was sent.',
    },
    pass: { type: 'boolean', description: 'Pass every line on, a refused one with its failure.' },
    report: {
      type: 'string',
      file: 'write',
      description: 'Write totals and findings to this file, as JSON.',
    },
  },

  async through(options, tools) {
    const { expect, ids, ledger, report } = options;
    const maxLine = (options as { 'max-line'?: number })['max-line'] ?? COMMON['max-line'].default;
    const by = await judgeOptions(options, tools);
    const onRecord = ledger === undefined ? undefined : await onRecordIn(ledger, options.agents, tools.base);
    const { judge, close } = judgeLines({
      ...{ stage: 'verify', expect, ids, maxLine, ...by },
      ...(onRecord && { onRecord }),
    });
    const { account } = tools;
    return throughout(judge, () => {
      const verdict = close();
      account.findings += verdict.findings.length;
      account.notes.push(...describeVerdict(verdict));
      if (report !== undefined) writeReport(report, `${JSON.stringify(reportOf(verdict), null, 2)}\n`);
    });
  },
});

/** Each item is judged; `end` comes after the last. What either throws ends the run. */
function throughout(judge: (item: Item) => Item, end: () => void): Through {
  return items =>
    items.consume<Item>((error, item, push, next) => {
      if (error) push(error);
      else if (!_.isNil(item)) push(null, judge(item));
      else {
        try {
          end();
        } catch (failure) {
          push(failure as Error);
        }
        return push(null, _.nil);
      }
      next();
    });
}

async function onRecordIn(ledger: string, agents: string | undefined, base: string): Promise<OnRecord> {
  const { openOnRecord } = await import('../engine/audit/on-record.ts');
  return openOnRecord(ledger, agentsFor(agents, base));
}

function writeReport(path: string, text: string): void {
  try {
    writeFileSync(path, text, { flag: flagsFor(path) });
  } catch (error) {
    throw ioError(`--report: expected to write ${path}, found ${(error as NodeJS.ErrnoException).code}`);
  }
}
