/** A batch that workers answer: its lines go to the desk, and come back as shards are done. Its ledgers are theirs. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { placed } from '../../../engine/running/stage-options.ts';
import type { Desk, PlannedWork } from '../../workers/desk.ts';
import { remotePool, sharding } from '../../workers/sharding.ts';
import { shardsIn } from '../serve-workers.ts';
import { type Answering, type AnsweringOptions, withAnswer } from './answerer.ts';
import { weightOf } from './batch-turns.ts';

export interface ByWorkersOptions extends AnsweringOptions {
  desk: Desk;
  /** bytes of a line; ms that workers have to hand in what they hold */
  maxLine: number;
  grace: number;
  now(): number;
}

/** Whether it was planned for workers. */
export const hasBegunByWorkers = (folder: string): boolean => existsSync(shardsIn(folder));

/** Of the SHA-256 of the lines: another version of fw may read them otherwise, and then begins anew. */
const NAMED = 16;

export function answeredByWorkers(options: ByWorkersOptions): Answering {
  const { record, folder, ending, onTokens, desk, maxLine, grace, now } = options;
  const { id, models, owner } = record;
  const most = { 'max-line': withAnswer(maxLine) };
  const task = {
    label: id,
    row: [{ stage: 'request', options: most }],
    files: null,
    models,
    owner,
    weight: weightOf(record),
  };
  const root = shardsIn(folder);
  let work: PlannedWork | null = null;
  const stage = sharding({
    desk,
    workOf: sha256 => ({
      ...{ id, task, files: null, folder: join(root, sha256.slice(0, NAMED)) },
      onAsked: ({ promptTokens, completionTokens }) => onTokens(promptTokens + completionTokens),
    }),
    spool: join(root, 'lines.unfinished'),
    onOpen(opened) {
      work = opened;
      if (ending() !== null) endWhenHeard(opened);
    },
  });
  /** It ended while the server was away: workers still hand in what they have, once they were heard of. */
  function endWhenHeard(opened: PlannedWork): void {
    const end = (): void => {
      opened.end();
      setTimeout(opened.abort, grace).unref();
    };
    setTimeout(end, Math.max(0, opened.opensAt - now())).unref();
  }

  return {
    placed: placed(stage, most),
    openPool: () => remotePool(desk, () => work),
    stop: () => work?.end(),
    abort: () => work?.abort(),
  };
}
