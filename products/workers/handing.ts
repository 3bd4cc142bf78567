/**
 * A run whose asking stages workers do: the row with one stage in their place, and the task that says what they do. What is
 * wrong with it is said before anything is opened.
 */
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { folderOfAgents, loadAgents } from '../../engine/asking/agents/load-agents.ts';
import type { OptionsOfStage } from '../../engine/running/named-files.ts';
import type { Run } from '../../engine/running/run-options.ts';
import { optionsOf, placed } from '../../engine/running/stage-options.ts';
import { type AskedByLines, expecting } from './before-sharding.ts';
import { bundleOf } from './bundle.ts';
import { coordinatorId, type Desk } from './desk.ts';
import { checkMoved, movingIn, staying } from './moving.ts';
import type { Task } from './protocol.ts';
import type { PlannedWork } from './shard-work.ts';
import { sharding } from './sharding.ts';

export interface Handing {
  /** an agent names no model, and nobody has said which one to ask */
  needsModel: boolean;
  /** the one that is asked for where an agent names none, if anybody has said it */
  model: string | null;
  /** what the pipeline says in vain, in words */
  unused: string[];
  /** The row of the run; `run.row` is that of the pipeline, its side files under the names that they are written by. */
  rowOf(row: Run['row'], by: HandedBy): OptionsOfStage[];
  /** Removes the lines of a run that ended before all had come: nobody has any of them. */
  dropUnplanned(folder: string): void;
}

export interface HandedBy {
  desk: Desk;
  /** of all works of this ledger */
  folder: string;
  /** asked for where an agent or a request names none; null where each does */
  model(): string | null;
  /** Waits for a worker, and has `model` say its model from then on. */
  firstModel(): Promise<void>;
  onOpen(work: PlannedWork): void;
}

export type Handed = Pick<Run, 'label' | 'row' | 'base' | 'pool'> & { sets: readonly string[] };

/** Exit 64 or 65 for a pipeline that workers cannot do. */
export async function handingOf({ label, row, base, sets, pool }: Handed): Promise<Handing> {
  const { moved } = movingIn(row);
  const asked = moved.filter(({ stage }) => stage.asks);
  const named = (asked[0]?.options.model as string | undefined) ?? pool?.model;
  await checkMoved(moved, { base, sets, model: named ?? '' });
  const bundle = bundleOf(moved, base);
  const files = bundle.files === null ? null : sha256(bundle.files);
  const byAgents = modelsOf(asked, base);
  const needsModel = byAgents.includes(undefined);

  function taskOf(model: string | null, { models: ofLines, hasUnnamed }: AskedByLines): Task {
    const wanted = (needsModel || hasUnnamed) && model !== null ? { model } : {};
    const models = [...byAgents.filter(name => name !== undefined), ...Object.values(wanted), ...ofLines];
    return {
      ...{ label, files, owner: 'run', weight: 1, models: [...new Set(models)].sort() },
      row: bundle.row.map(({ stage, options }) => ({ stage, options: { ...options, ...wanted } })),
    };
  }

  return {
    needsModel: needsModel && named === undefined,
    model: named ?? null,
    unused: [
      ...(pool === undefined
        ? []
        : ['the endpoints of the pipeline file are not asked: workers have their own']),
      ...asked.flatMap(({ stage, options }) =>
        options['in-flight'] === undefined
          ? []
          : [`in-flight of ${stage.name} is not used: a worker takes what its endpoints have places for`],
      ),
    ],
    rowOf(row, { desk, folder, model, firstModel, onOpen }) {
      const { before, moved, behind } = movingIn(row);
      const ofLines: AskedByLines = { models: new Set(), hasUnnamed: false };
      const stage = sharding({
        desk,
        spool: spoolIn(folder),
        // which model a request means that names none is settled before workers of any model take it
        settle: async () => (ofLines.hasUnnamed && model() === null ? firstModel() : undefined),
        workOf(lines) {
          const task = taskOf(model(), ofLines);
          // of this ledger: workers keep the answers of a work, and a run with another ledger asks anew
          const what = [coordinatorId(folder), task.row, task.files, task.models, lines];
          const id = `run-${sha256(JSON.stringify(what)).slice(0, 24)}`;
          return { id, folder: join(folder, id), task, files: bundle.files };
        },
        onOpen,
      });
      return [...before, expecting(moved, base, ofLines), placed(stage, staying(moved)), ...behind];
    },
    dropUnplanned: folder => rmSync(spoolIn(folder), { force: true }),
  };
}

const spoolIn = (folder: string): string => join(folder, 'lines.unfinished');

/** What the agents of the stages ask for; undefined for one that names none. */
function modelsOf(asked: readonly OptionsOfStage[], base: string): (string | undefined)[] {
  const withAgents = asked.filter(({ stage }) => 'agents' in optionsOf(stage));
  return withAgents.flatMap(({ options }) => {
    const agents = loadAgents(folderOfAgents(options.agents as string | undefined, base));
    return [...agents.byKey.values()].map(({ model }) => model);
  });
}

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex');
