/** ledger show: every try of an item, or of one call, with what was sent and what came back. */

import { nameOfCall } from '../../engine/asking/ledger/key-index.ts';
import { type CallHead, callIn, openLines } from '../../engine/asking/ledger/read-ledger.ts';
import { contentText, type Request, readRequest } from '../../engine/asking/ledger/request-texts.ts';
import { writePage } from '../../engine/core/files/stdout.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { counted, cut, number } from '../../engine/core/item/wording.ts';
import { visible, visibleLines } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { type Answers, readAnswers } from './answer-outcomes.ts';
import { findTries, type Tries, type Try } from './find-tries.ts';
import { LEDGER, openReading, tokensOf, toStderr } from './reading-options.ts';

export default command({
  name: 'ledger show',
  summary: 'Show every try of an item or a call: request, answer, verdict, endpoint, tokens, time.',
  positional: 'ID',
  examples: ['fw ledger show 50acc2a3e4e6', 'fw ledger show 876c9724f18f12f4 --ledger out/ledger'],
  options: LEDGER,

  async run({ ledger }, [id, ...more]) {
    if (id === undefined || id === '' || more.length > 0)
      throw usageError('expected the id of an item or the key of a call: fw ledger show ID');
    const say = toStderr('show');
    const { paths, tell, end } = openReading(ledger, say);
    const found = findTries(paths, id, tell);
    if (found.tries.length === 0) {
      say(notFound(id, found));
      return end() || EXIT.failed;
    }
    const answers = readAnswers(paths, () => {});
    const lines = openLines(paths);
    const first = new Map<string, number>();
    for (const [index, one] of found.tries.entries()) {
      const line = { at: one.offset, bytes: lines.read(one), header: one.header };
      const call = callIn(line.bytes);
      if (call === null) continue; // it was one a moment ago
      const told = first.get(one.key);
      const request = told === undefined ? readRequest(line, one.texts) : told;
      first.set(one.key, told ?? index + 1);
      await writePage(
        `${storyOf(index + 1, one, { call, request, answers, path: paths[one.file] }).join('\n')}\n`,
      );
      one.texts.close();
    }
    lines.close();
    return end();
  },
});

interface Told {
  call: CallHead;
  /** or the number of the try that has the same one */
  request: Request | number;
  answers: Answers;
  path: string | undefined;
}

function storyOf(place: number, one: Try, { call, request, answers, path = '' }: Told): string[] {
  const { key, outcome, time, endpoint, model, item, agent, round, attempt, ms } = call;
  const { detail, finish, usage, answer, whole, redacted, caller, arm, ttft } = call;
  const facts = [agent, `attempt ${attempt}`, ...(round > 0 ? [`round ${round + 1}`] : []), outcome];
  const name = nameOfCall(call, one.header);
  const isFirst = answer !== undefined && answers.isFirst(name, one.file, one.offset);
  const verdict = isFirst ? answers.verdictOf(name) : null;
  if (verdict) facts.push(`verdict ${verdict.rung}${verdict.code === undefined ? '' : ` (${verdict.code})`}`);
  if (answer !== undefined && !isFirst)
    facts.push('the call had an answer before, which is the one replayed');
  const run = one.header ? `run ${one.header.label} of ${one.header.started}` : 'a run whose header is lost';
  const lines = [
    `${place === 1 ? `${visible(item)}\n\n` : '\n'}${place}. ${facts.map(visible).join(' · ')}`,
    `   ${[time, `${number(ms)} ms`, endpoint, model].map(visible).join(' · ')}`,
    `   call ${visible(key)} · ${visible(run)} · ${visible(path)} at byte ${one.offset}`,
  ];
  const live = [
    ...(caller === undefined ? [] : [`asked by ${caller}`]),
    ...(arm === undefined ? [] : [`arm ${arm}`]),
    ...(ttft === undefined ? [] : [`first token after ${number(ttft)} ms`]),
  ];
  if (live.length > 0) lines.push(`   ${live.map(visible).join(' · ')}`);
  if (usage)
    lines.push(
      `   tokens ${tokensOf({ in: usage.prompt, cached: usage.cached ?? 0, out: usage.completion })}`,
    );
  if (detail !== undefined) lines.push(`   ${visible(detail)}`);
  if (typeof request === 'number') lines.push(`   the request is that of ${request}.`);
  else lines.push(...asked(request, redacted === true));
  const part = whole ? `, the beginning of ${counted(whole.bytes, 'byte')}` : '';
  if (answer !== undefined)
    lines.push(`   answer, finish ${visible(finish ?? '?')}${part}`, ...block(answer));
  return lines;
}

function asked({ system, input, parameters }: Request, redacted: boolean): string[] {
  const lines = redacted ? ['   texts of the request were left out of the ledger (--redact)'] : [];
  const named = Object.entries(parameters).map(
    ([name, value]) => `${name} ${cut(JSON.stringify(value), 80)}`,
  );
  if (named.length > 0) lines.push(`   ${named.map(visible).join(' · ')}`);
  if (system === null) lines.push('   system: its text is lost');
  else if (system !== '') lines.push('   system', ...block(system));
  for (const message of input) lines.push(`   ${visible(message.role)}`, ...block(contentText(message)));
  return lines;
}

const block = (text: string): string[] => visibleLines(text).map(line => `     | ${line}`);

function notFound(id: string, { several, read }: Tries): string {
  const found =
    several.length > 0
      ? `several that begin with it: ${several.join(', ')}`
      : `none in ${counted(read, 'try', 'tries')}`;
  return visible(`expected an item with the id ${id}, or a call with that key, found ${found}`);
}
