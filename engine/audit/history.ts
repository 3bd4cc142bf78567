/**
 * The whole story of one line, for a person at a terminal: what was asked, each attempt and why it was not accepted,
 * what was accepted, every change to it with before and after, what failed. Nothing here throws on any line.
 */

import {
  type Answer,
  answersIn,
  isAccountedFor,
  isProvenance,
  isRepair,
  list,
  markedRepairs,
  wordsOf,
} from '../answers/answers-of-line.ts';
import { entryLine, READ_BACK } from '../answers/rules.ts';
import { isQuestion } from '../asking/agents/asked-once.ts';
import { CODES, type Code } from '../core/item/codes.ts';
import {
  type Failure,
  failureOf,
  isItem,
  isLegacy,
  isRawRequest,
  type Repair,
  rungOf,
} from '../core/item/item.ts';
import { isBatchResult } from '../core/item/response.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { visible, visibleLines } from '../core/json/visible.ts';

export interface FoundLine {
  line: JsonObject;
  /** `file:line` */
  where: string;
  /** the id that the line goes by */
  id: string;
}

/** The lines to print. `advice` says of a failure what may be done about it. */
export function storyOf({ line, where, id }: FoundLine, advice: (failure: Failure) => string[]): string[] {
  const lines = [visible(id), `  ${visible(where)} · ${kindWords(line)} · rung ${rungIn(line)}`];
  if (isProvenance(line)) return [...lines, ...answersIn(line).flatMap(answer => ['', ...stepOf(answer)])];
  add(lines, askedIn(line));
  if (isItem(line)) {
    const answers = answersIn(line);
    for (const answer of answers) add(lines, ['', ...stepOf(answer)]);
    if (answers.length === 0) lines.push('', 'no answers: no agent was asked yet');
  } else if (isLegacy(line)) add(lines, turnsIn(line));
  else lines.push('', 'record', ...pretty(line, '  '));
  const changes = markedRepairs(line);
  if (changes.length > 0) {
    lines.push('', `changes to the ${isLegacy(line) ? 'legacy result' : 'record'} (_fw)`);
    add(lines, changesOf(changes));
  }
  const failure = failureOf(line);
  if (failure !== undefined) add(lines, ['', ...failureIn(failure, advice)]);
  return lines;
}

/** A call takes some ten thousand arguments at most, and a hostile line has more changes than that. */
function add(lines: string[], more: readonly string[]): void {
  for (const line of more) lines.push(line);
}

function kindWords(line: JsonObject): string {
  if (isProvenance(line)) return 'provenance of a legacy result';
  if (isItem(line)) return typeof line.row === 'number' ? `item, row ${line.row} of its source` : 'item';
  if (isBatchResult(line)) return 'line of a batch';
  return isLegacy(line) ? 'legacy result' : 'record';
}

function rungIn(line: JsonObject): string {
  if (isProvenance(line)) return visible(String(line.rung));
  const isUnmarked = isLegacy(line) && line._fw === undefined && line.failure === undefined;
  return isUnmarked
    ? 'not known (a legacy result has no place for it; the file of --provenance has)'
    : rungOf(line);
}

function askedIn(line: JsonObject): string[] {
  const { input, prompt, initial_prompt } = line;
  const lines: string[] = [];
  const columns = isItem(line) && isObject(input) ? Object.entries(input) : [];
  if (columns.length > 0) {
    const widest = Math.min(
      24,
      columns.reduce((most, [column]) => Math.max(most, column.length), 0),
    );
    lines.push('', 'input');
    for (const [column, value] of columns) {
      const text = value === prompt ? '(the prompt below)' : excerpt(shown(value));
      lines.push(`  ${visible(column).padEnd(widest)}  ${text}`);
    }
  }
  const { request } = line;
  if (isItem(line) && isRawRequest(request))
    lines.push('', `request to ${visible(shown(request.url))}`, ...pretty(request.body, '  '));
  const chat = line.messages === undefined ? undefined : JSON.stringify(line.messages, null, 2);
  const asked = isItem(line) ? (prompt ?? chat) : isLegacy(line) ? initial_prompt : undefined;
  return typeof asked === 'string' ? [...lines, '', 'prompt', ...block(asked, '  ')] : lines;
}

function stepOf(answer: Answer): string[] {
  const { at, agent, rung, saw, attempts, round, rejected, calls, usage } = answer;
  const { output, response, said, whole, repairs, shared } = answer;
  const facts = [visible(agent), `rung ${visible(rung)}`, `saw ${visible(saw)}`];
  facts.push(attempts === 1 ? '1 attempt' : `${attempts} attempts`);
  if (round > 0) facts.push(`round ${round + 1}`);
  if (usage) facts.push(`tokens ${usage.prompt} in, ${usage.completion} out`);
  const lines = [`${at}  ${facts.join(' · ')}`];
  if (shared !== undefined)
    lines.push(
      `  asked once for all ${isQuestion(shared) ? 'equal requests, as' : 'items of'} ${visible(shared)}`,
    );
  const attempt = (number: number, more: string): void => {
    const call = calls[number - 1];
    lines.push(`  attempt ${number}: ${more}`, ...(call === undefined ? [] : [`    call ${visible(call)}`]));
  };
  for (const [index, { raw, whole, code, message, temperature }] of rejected.entries()) {
    const heat = temperature === undefined ? '' : ` (temperature ${temperature})`;
    attempt(index + 1, `not accepted${heat}: ${visible(code)}: ${visible(message)}`);
    lines.push(...textOfModel(raw, whole));
  }
  const isText = said !== undefined && (output === undefined || said !== wordsOf(output));
  if (attempts > rejected.length) {
    attempt(attempts, endOf(answer));
    if (isText) lines.push(...textOfModel(said, whole));
  }
  const changes = repairs.filter(({ rule }) => rule !== READ_BACK);
  if (changes.length < repairs.length) lines.push(`  ${READ_BACK}: ${entryLine(READ_BACK)?.line}`);
  if (changes.length > 0) add(lines, ['  changes by fw, in order', ...changesOf(changes, { said })]);
  if (output !== undefined)
    lines.push(
      `  answer${isText || said === undefined ? '' : ', as it was said'}`,
      ...(typeof output === 'string' ? block(output, '    ') : pretty(output, '    ')),
    );
  if (response !== undefined) {
    lines.push(`  the server answered HTTP ${response.status_code}`, ...pretty(response.body, '    '));
    if (answer.isEdited) lines.push('  WARNING: this is not what the server answered: it has another hash');
  }
  const checked = isAccountedFor(answer);
  if (checked === true && repairs.length > 0)
    lines.push('  checked: these changes, made to what the model said, give this answer');
  if (checked === false)
    lines.push('  WARNING: what the model said, with the changes recorded, does not give this answer');
  return lines;
}

/** What a model said; where only its beginning was kept, also that. */
function textOfModel(text: string, whole: Answer['whole']): string[] {
  const rest = whole && `    (the beginning of ${whole.bytes} bytes, sha256 ${visible(whole.sha256)})`;
  return [...block(text, '    '), ...(rest ? [rest] : [])];
}

function endOf({ problem, output, response, said, rung, at }: Answer): string {
  if (response !== undefined) return rung === 'failed' ? 'refused' : 'answered';
  if (problem) return `not accepted: ${visible(problem.code)}: ${visible(problem.message)}`;
  if (output === undefined && !at.startsWith('/agents'))
    return said === undefined ? 'no answer came' : 'not accepted';
  return rung === 'defaulted' ? 'did not fit; what was missing was filled' : 'accepted';
}

const CONTEXT = 24;
const MAX_EXCERPT = 160;

/**
 * Entries with before and after, and what their rule is, once for neighbours of the same rule. `said` is the text that
 * syntax entries are about.
 */
export function changesOf(
  changes: readonly Repair[],
  { said, indent = '    ' }: { said?: string; indent?: string } = {},
): string[] {
  return changes.flatMap((change, index) => {
    const { rule } = change;
    const line = `${indent}${visible(rule)} ${placeOf(change, said)}`;
    if (changes[index + 1]?.rule === rule) return [line];
    return [line, `${indent}  ${entryLine(rule)?.line ?? 'A rule that this version of fw does not have.'}`];
  });
}

function placeOf(change: Repair, said = ''): string {
  const { at, offset, cut = '', put = '' } = change;
  if (offset === undefined)
    return `${visible(at ?? '')}: ${sideOf(change, 'from')} → ${sideOf(change, 'to')}`;
  const before = excerpt(said.slice(Math.max(0, offset - CONTEXT), offset));
  const after = excerpt(said.slice(offset + cut.length, offset + cut.length + CONTEXT));
  return `at offset ${offset}: ${before}‹${shortened(cut)}›→‹${shortened(put)}›${after}`;
}

function sideOf(change: Repair, side: 'from' | 'to'): string {
  if (!(side in change)) return 'nothing';
  return shortened(JSON.stringify(change[side]) ?? 'nothing');
}

/** Line breaks in an excerpt would tear it apart. */
const excerpt = (text: string): string => visible(text.replaceAll('\n', '⏎'));

function shortened(text: string): string {
  if (text.length <= MAX_EXCERPT) return excerpt(text);
  const half = MAX_EXCERPT / 2;
  return `${excerpt(text.slice(0, half))} … ${text.length - MAX_EXCERPT} characters … ${excerpt(text.slice(-half))}`;
}

function turnsIn(line: JsonObject): string[] {
  const turns = list(line.conversation_history).flatMap((turn, index) => {
    if (!isObject(turn)) return [];
    return [
      '',
      `/conversation_history/${index}  ${visible(shown(turn.agent))}`,
      ...pretty(turn.output, '  '),
    ];
  });
  return [...turns, '', '/business_decision', ...pretty(line.business_decision, '  ')];
}

function failureIn(failure: Failure, advice: (failure: Failure) => string[]): string[] {
  const { stage, code, message, agent, text, would } = failure;
  const by = typeof agent === 'string' ? `, at ${visible(agent)}` : '';
  const lines = [`failed in ${visible(String(stage))}${by}: ${visible(String(code))}`];
  const meaning = Object.hasOwn(CODES, String(code)) ? CODES[code as Code] : undefined;
  if (meaning !== undefined) lines.push(`  ${meaning}`);
  lines.push(`  ${visible(String(message))}`);
  if (typeof text === 'string') lines.push('  the line as it was', ...block(text, '    '));
  const entries = list(would).filter(isRepair);
  if (entries.length > 0) add(lines, ['  null-fix would put', ...changesOf(entries)]);
  return [...lines, ...advice(failure).map(line => `  ${line}`)];
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
}

/** One string for all lines of the text: there may be a million. */
function block(text: string, indent: string): string[] {
  return [
    visibleLines(text)
      .map(line => `${indent}| ${line}`)
      .join('\n'),
  ];
}

function pretty(value: unknown, indent: string): string[] {
  return block(JSON.stringify(value, null, 2) ?? 'nothing', indent);
}
