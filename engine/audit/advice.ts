/** What may be done about a failure, by what the stages themselves say that they heal. */
import type { Failure } from '../core/item/item.ts';
import type { Values } from '../flow/options.ts';
import { type Stage, type StageList, stagesOf } from '../flow/stage.ts';

/** Sentences for a person, each of one thing that may be done. */
export type Advice = (failure: Failure) => string[];

/** `stages`: all there are, by name, each to be loaded (stages/index.ts). */
export async function advisor(stages: StageList): Promise<Advice> {
  const all = await Promise.all(Object.values(stages).map(async load => (await load()).default));
  const takers = all.flatMap(stage => ('row' in stage ? [] : stagesOf(stage)));
  return failure => adviceOn(failure, takers);
}

function adviceOn(failure: Failure, takers: readonly Stage[]): string[] {
  const healing = (options: Values): string[] =>
    takers
      .filter(({ heals = [] }) =>
        typeof heals === 'function' ? heals(failure, options) : heals.includes(failure.code),
      )
      .map(({ name }) => name);
  if (failure.stage === 'batch')
    return [
      failure.code === 'call-refused'
        ? 'mend the request or the server first; the same fw batch then asks again'
        : 'asked again by the same fw batch; by another run: fw select --ids FAILED INPUT | fw batch',
    ];
  const lines: string[] = [];
  const mending = takers.filter(({ asks, name }) => !asks && healing({}).includes(name));
  const asker = failure.stage === 'request' ? 'request' : 'chain';
  if (healing({}).includes(asker)) lines.push(`fw ${asker} continues it`);
  else if (healing({ 'retry-failed': true }).includes(asker))
    lines.push(
      `asked again by: fw select --failed FILE | fw ${asker} --retry-failed, with the endpoints, ledger and agents of the run`,
    );
  if (mending.length > 0)
    lines.push(`judged again, without asking, by: ${mending.map(({ name }) => `fw ${name}`).join(', ')}`);
  if (lines.length === 0)
    lines.push('no stage takes this up: mend the input that it came from, and run on from there');
  return lines;
}
