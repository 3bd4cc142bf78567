/**
 * The one folder that knows a domain, and its one file that the engine asks: how a simulated agent judges a loan. It turns an application into wishes by
 * property name (`approval_decision`, `interest_rate`, …), which the generic engine takes where the schema of a
 * request has such a property. Higher scores and smaller loans are approved more often; an agent leans toward the agents
 * that it has read; near the border chance decides, by the seed.
 */

import { isObject } from '../../../engine/core/json/pointer.ts';
import { APPROVE, type Bias, biased, type Outcome, shiftFor } from '../bias.ts';
import { normal, type Random } from '../random.ts';
import type { KnownSchema } from '../schemas.ts';
import { type Application, readApplication } from './application.ts';

export interface Conversation {
  /** the system messages */
  system: string;
  /** what the user said, all turns */
  user: string;
}

export type Wishes = ReadonlyMap<string, unknown>;

const NO_WISHES: Wishes = new Map();

/** The property that tells a loan answer from any other. */
export const TELLING = 'approval_decision';

/** Whether an outcome is the decision about a loan, which the application has a say in. */
export const isLoan = ({ key = TELLING, approve = APPROVE }: Outcome) =>
  key === TELLING && approve === APPROVE;

/** Whether answers to a schema may be either decision. */
export const takesLoan = ({ spreads }: KnownSchema) =>
  spreads(TELLING).some(({ chances }) => chances.has(APPROVE) && chances.has('deny'));

const WEIGHTS = [
  'risk_manager_weight',
  'regulatory_weight',
  'data_science_weight',
  'consumer_advocate_weight',
];

interface Role {
  words: RegExp;
  name: string;
  /** how lenient, in the unit of `strengthOf` */
  leaning: number;
}

const ROLES: readonly Role[] = [
  { words: /risk/i, name: 'Risk Manager', leaning: -0.35 },
  { words: /data scien/i, name: 'Data Science', leaning: 0.05 },
  { words: /regulat|compliance/i, name: 'Regulatory Compliance', leaning: -0.15 },
  { words: /consumer|advocate|borrower/i, name: 'Consumer Advocate', leaning: 0.45 },
  { words: /synthes|business decision|\bchair\b/i, name: 'Business Decision', leaning: 0 },
];
const NO_ROLE: Role = { words: /^/, name: 'Loan Agent', leaning: 0 };

/** The role that the start of a persona names first. */
function roleOf(system: string): Role {
  const opening = system.slice(0, 300);
  let found = NO_ROLE;
  let first = Number.POSITIVE_INFINITY;
  for (const role of ROLES) {
    const at = opening.search(role.words);
    if (at < 0 || at >= first) continue;
    found = role;
    first = at;
  }
  return found;
}

/** Wishes for a schema with these property names; none where it is no loan answer. */
export function studyWishes(
  names: ReadonlySet<string>,
  conversation: Conversation,
  random: Random,
  biases: readonly Bias[] = [],
): Wishes {
  return names.has(TELLING) ? judge(names, conversation, random, biases) : NO_WISHES;
}

/** What a model without a schema would say: the whole answer, where its persona speaks of one; else undefined. */
export function unguidedAnswer(
  conversation: Conversation,
  random: Random,
  biases: readonly Bias[] = [],
): unknown {
  const { system } = conversation;
  if (!system.includes(TELLING)) return undefined;
  const synthesis = system.includes('agent_influence');
  const wishes = judge(new Set(WEIGHTS), conversation, random, biases);
  const take = (names: readonly string[]) => Object.fromEntries(names.map(name => [name, wishes.get(name)]));
  const answer = take(['agent_name', 'loan_type', ...DECISION]);
  if (synthesis) answer.agent_influence = take([...WEIGHTS, 'primary_influence']);
  answer.reasoning = take(synthesis ? SYNTHESIS_REASONS : REASONS);
  return answer;
}

const DECISION = [TELLING, 'approval_type', 'interest_rate', 'confidence_probability', 'confidence_level'];
const REASONS = [
  'approval_decision_reason',
  'approval_type_reason',
  'interest_rate_reason',
  'confidence_reason',
];
const SYNTHESIS_REASONS = ['synthesis_rationale', 'weight_justification', 'risk_assessment'];

/** The fault `zero`: a decision without confidence. False where the answer is no synthesis. */
export function zeroConfidence(answer: unknown): boolean {
  if (!isObject(answer) || !('agent_influence' in answer) || !('confidence_probability' in answer))
    return false;
  answer.confidence_probability = 0;
  if ('confidence_level' in answer) answer.confidence_level = 'low';
  return true;
}

/** How often a persona approves an application, without a bias. */
export function approvalChance({ system, user }: Conversation): number {
  return chanceAbove(strengthOf(readApplication(user)) + roleOf(system).leaning);
}

const NOISE = 0.55;

/** The chance that `strength` with the noise of a judgement is above 0: the noise is that of `normal`, three uniform numbers. */
function chanceAbove(strength: number): number {
  const x = Math.min(3, Math.max(0, 1.5 + strength / NOISE / 2));
  if (x < 1) return x ** 3 / 6;
  if (x < 2) return (-2 * x ** 3 + 9 * x ** 2 - 9 * x + 3) / 6;
  return 1 - (3 - x) ** 3 / 6;
}

function judge(
  names: ReadonlySet<string>,
  { system, user }: Conversation,
  random: Random,
  biases: readonly Bias[],
): Wishes {
  const application = readApplication(user);
  const role = roleOf(system);
  const merits = strengthOf(application) + role.leaning;
  const strength = merits + NOISE * normal(random);
  const shift = biases.length === 0 ? 0 : shiftFor(user, biases);
  const approves = biased(strength > 0, chanceAbove(merits), shift, random);
  const rate = rateOf(application, approves, random);
  const confidence = Math.round(
    Math.min(97, Math.max(12, 52 + 17 * Math.abs(strength) + 5 * normal(random))),
  );
  const level = confidence < 40 ? 'low' : confidence < 80 ? 'medium' : 'high';
  const type = !approves
    ? 'DENIAL'
    : strength > 0.8
      ? 'STANDARD_TERMS'
      : strength > 0.25
        ? 'SUBOPTIMAL_TERMS'
        : 'MANUAL_REVIEW';
  const wishes = new Map<string, unknown>([
    ['agent_name', role.name],
    ['loan_type', 'personal_loan'],
    [TELLING, approves ? APPROVE : 'deny'],
    ['approval_type', type],
    ['interest_rate', rate],
    ['confidence_probability', confidence],
    ['confidence_level', level],
  ]);
  addWeights(wishes, names, random);
  addReasons(wishes, application, approves, random);
  return wishes;
}

/** Above 0 speaks for approval; one unit is about the weight of 55 points of credit score. */
function strengthOf({ score = 670, income, loan, debtRatio, earlier }: Application): number {
  const size = income === undefined || loan === undefined ? 1.5 : Math.min(6, loan / income);
  const debt = debtRatio === undefined ? 0 : Math.min(1.5, debtRatio) - 0.4;
  const lean = earlier.reduce((sum, opinion) => sum + (opinion.approves ? 1 : -1), 0) / (earlier.length || 1);
  return (score - 655) / 55 - 0.8 * (size - 1.5) - 0.6 * debt + 0.6 * lean;
}

/** A yearly rate in per cent: by score and size of the loan, higher where denied, drawn toward what others named. */
function rateOf(application: Application, approves: boolean, random: Random): number {
  const { score = 670, income, loan, earlier } = application;
  const size = income === undefined || loan === undefined ? 1.5 : Math.min(6, loan / income);
  const own = 5.5 + (800 - score) / 22 + size + (approves ? 0 : 5) + 0.8 * normal(random);
  const named = earlier.flatMap(opinion => (opinion.rate === undefined ? [] : [opinion.rate]));
  const others = named.length === 0 ? own : named.reduce((sum, rate) => sum + rate, 0) / named.length;
  return Math.round(Math.min(25, Math.max(3, 0.7 * own + 0.3 * others)) * 100) / 100;
}

/** Weights in whole hundredths that sum to 1, also as doubles added in the order of the schema. */
function addWeights(wishes: Map<string, unknown>, names: ReadonlySet<string>, random: Random): void {
  const weighted = [...names].filter(name => name.endsWith('_weight'));
  if (weighted.length === 0) return;
  const draws = weighted.map(() => 0.5 + random());
  const total = draws.reduce((sum, draw) => sum + draw, 0);
  const hundredths = draws.map(draw => Math.floor((draw / total) * 100));
  hundredths[0]! += 100 - hundredths.reduce((sum, part) => sum + part, 0);
  const sum = () => hundredths.reduce((so, part) => so + part / 100, 0);
  // as doubles, 0.29 + 0.57 + 0.14 is 0.9999999999999999: hundredths that move to the least find a sum without a rest
  while (sum() !== 1 && spread(hundredths) > 1) {
    hundredths[hundredths.indexOf(Math.max(...hundredths))]!--;
    hundredths[hundredths.indexOf(Math.min(...hundredths))]!++;
  }
  weighted.forEach((name, index) => {
    wishes.set(name, hundredths[index]! / 100);
  });
  const largest = weighted[hundredths.indexOf(Math.max(...hundredths))]!;
  wishes.set('primary_influence', largest.slice(0, -'_weight'.length));
}

const spread = (values: readonly number[]) => Math.max(...values) - Math.min(...values);

function addReasons(
  wishes: Map<string, unknown>,
  application: Application,
  approves: boolean,
  random: Random,
): void {
  const { score, income, loan, debtRatio, earlier } = application;
  const approving = earlier.filter(opinion => opinion.approves).length;
  const scoreWords = score === undefined ? 'The credit history as told' : `A credit score of ${score}`;
  const sizeWords =
    income && loan
      ? `a loan of ${(loan / income).toFixed(1)} times the yearly income`
      : 'the size of the loan';
  const debtWords = debtRatio === undefined ? 'the load of debt' : `a debt to income ratio of ${debtRatio}`;
  const readWords =
    earlier.length === 0
      ? 'No earlier assessment was at hand'
      : `${approving} of ${earlier.length} earlier assessments approve`;
  // every answer can be told from every other, so that a checker can find which request it belongs to
  const reference = Math.floor(random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0');
  const verdict = approves ? 'speaks for approval' : 'speaks against approval';
  const reasons: [string, string][] = [
    ['approval_decision_reason', `${scoreWords} with ${sizeWords} ${verdict} (note ${reference}).`],
    [
      'approval_type_reason',
      approves ? `The terms follow from ${debtWords}.` : `Given ${debtWords}, no terms would be sound.`,
    ],
    ['interest_rate_reason', `The rate prices ${sizeWords} against ${debtWords}.`],
    ['confidence_reason', `${readWords}; the figures ${approves ? 'leave some room' : 'leave little room'}.`],
    ['synthesis_rationale', `${readWords}; ${scoreWords.toLowerCase()} ${verdict} (note ${reference}).`],
    ['weight_justification', 'The weights follow how much of the evidence each assessment explains.'],
    ['risk_assessment', `The main risk lies in ${debtWords} together with ${sizeWords}.`],
  ];
  for (const [name, reason] of reasons) wishes.set(name, reason);
}
