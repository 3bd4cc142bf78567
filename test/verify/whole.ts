/**
 * Damages to a whole run, each with the way in which it is found, decided before the first run of the table. Nothing here
 * knows of the code that is to find them.
 */
import { createHash } from 'node:crypto';
import { type JsonObject, parsePointer, setAt, valueAt } from '../../engine/core/json/pointer.ts';

export type Line = JsonObject;

/**
 * What it takes: `verify` alone, `--ids` of what was asked, the file of provenance (with an --accept that names no
 * `unknown`), `--ledger` (of legacy results beside provenance). `said`: a line on stderr, and exit 0. `never`: why not.
 */
export type Way = 'alone' | 'ids' | 'provenance' | 'ledger';

export interface Damage {
  name: string;
  by: readonly Way[] | 'said' | { never: string };
  to(lines: Line[]): Line[];
}

const hashOf = (value: unknown): string =>
  createHash('sha256')
    .update(typeof value === 'string' ? value : JSON.stringify(value))
    .digest('hex')
    .slice(0, 16);

type Step = JsonObject & { output: JsonObject; calls: string[]; repairs: JsonObject[] };
const stepsOf = (line: Line | undefined): Step[] => line?.steps as Step[];
const at = (line: Line | undefined, pointer: string): JsonObject => valueAt(line, pointer) as JsonObject;

/** Both orderings of the base; the second item of each row is asked in the second. */
export const ORDERINGS = ['risk-data-regulatory-consumer', 'data-risk-consumer-regulatory'];

/** Sets values of the n-th line by pointer; undefined takes a key away. */
const put =
  (nth: number, ...pairs: readonly [string, unknown][]) =>
  (lines: Line[]): Line[] =>
    lines.with(
      nth,
      pairs.reduce<unknown>((line, [place, to]) => setAt(line, parsePointer(place), to), lines[nth]) as Line,
    );
const change =
  (work: (lines: Line[]) => void) =>
  (lines: Line[]): Line[] => {
    const copy = structuredClone(lines);
    work(copy);
    return copy;
  };
/** An answer edited so that its own record agrees: no text, no changes, and the hash of what is there now. */
const edit = (step: Step, work: (output: JsonObject) => void): void => {
  work(step.output);
  delete step.raw;
  Object.assign(step, { repairs: [], rung: 'clean', sha256: hashOf(step.output) });
};
const edited = (nth: number, place: string, work: (output: JsonObject) => void) =>
  change(lines => edit(at(lines[nth], place) as Step, work));
const swap = (a: number, b: number, ...keys: string[]) =>
  change(lines => {
    for (const key of keys) {
      const [one, other] = [lines[a]?.[key], lines[b]?.[key]];
      Object.assign(lines[a] as Line, { [key]: other });
      Object.assign(lines[b] as Line, { [key]: one });
    }
  });
const reasonAs = (text: string) =>
  edited(2, '/steps/1', output => {
    (output.reasoning as JsonObject).approval_decision_reason = text;
  });
/** The number of an item with a step that `has`; the base is made so that there is one. */
const stepThat = (
  lines: readonly Line[],
  has: (step: Step) => boolean,
): { nth: number; turn: number; step: Step } => {
  for (const [nth, line] of lines.entries())
    for (const [turn, step] of stepsOf(line).slice(0, -1).entries())
      if (has(step)) return { nth, turn, step };
  throw new Error('expected such a step in the base, found none');
};
const atStep = (has: (step: Step) => boolean, work: (step: Step, line: Line, turn: number) => void) =>
  change(lines => {
    const { nth, turn, step } = stepThat(lines, has);
    work(step, lines[nth] as Line, turn);
  });
/** The decision of another item under calls that nobody made. */
const copied = (...calls: string[]) =>
  change(lines => {
    const { decision } = lines[2] as { decision: Step };
    Object.assign(lines[2] as Line, {
      decision: {
        ...(lines[0]?.decision as Step),
        saw: decision.saw,
        calls,
        attempts: 1,
        rejected: undefined,
      },
    });
  });
const isMended = ({ rung, raw }: Step): boolean => rung === 'repaired' && raw !== undefined;
const isRetried = ({ calls }: Step): boolean => calls.length > 1;
const isClean = ({ sha256 }: Step): boolean => sha256 !== undefined;
const other = (decision: unknown): string => (decision === 'approve' ? 'deny' : 'approve');
const flip = (output: JsonObject): void => {
  output.approval_decision = other(output.approval_decision);
};
const HARMLESS = { never: 'it makes a result worse than it is, and nothing passes for better' };

export const TO_ITEMS: readonly Damage[] = [
  ...(
    [
      ['a decision turned', '/decision', flip],
      ['a rate changed', '/steps/1', output => Object.assign(output, { interest_rate: 4.25 })],
      [
        'a reason changed',
        '/steps/2',
        output => Object.assign(output.reasoning as JsonObject, { confidence_reason: 'I know.' }),
      ],
      [
        'a confidence raised',
        '/decision',
        output => Object.assign(output, { confidence_probability: 100, confidence_level: 'high' }),
      ],
    ] as const satisfies [string, string, (output: JsonObject) => void][]
  ).flatMap(([name, place, work]): Damage[] => [
    { name, by: ['alone'], to: change(lines => work((at(lines[0], place) as Step).output)) },
    { name: `${name}, and the hash with it`, by: ['ledger'], to: edited(0, place, work) },
  ]),
  {
    name: 'a text edited, and the answer with it',
    by: ['ledger'],
    to: atStep(isMended, step => {
      const reasons = step.output.reasoning as JsonObject;
      const before = String(reasons.confidence_reason);
      reasons.confidence_reason = before.replace(/[a-z]/, 'x');
      step.raw = String(step.raw).replace(before, String(reasons.confidence_reason));
    }),
  },
  {
    name: 'a text edited alone',
    by: ['alone'],
    to: atStep(isMended, step => {
      const from = step.output.approval_decision;
      step.raw = String(step.raw).replace(`"${from}"`, `"${other(from)}"`);
    }),
  },
  {
    name: 'the changes and the text taken away',
    by: ['ledger'],
    to: change(lines => {
      const { nth } = stepThat(lines, isMended);
      for (const step of [...stepsOf(lines[nth]), lines[nth]?.decision as Step]) {
        if (step.raw !== undefined) edit(step, () => {});
        step.saw = 'clean';
      }
    }),
  },
  { name: 'a hash taken away', by: 'said', to: put(1, ['/steps/0/sha256', undefined]) },
  {
    name: 'an answer edited, and its hash taken away',
    by: ['ledger'],
    to: change(lines => {
      const [step] = stepsOf(lines[1]);
      flip(step!.output);
      delete step!.sha256;
      delete step!.raw;
      Object.assign(step!, { repairs: [], rung: 'clean' });
    }),
  },
  {
    name: 'a made-up coercion beside an edited answer',
    by: ['alone'],
    to: atStep(isClean, (step, line, turn) => {
      const from = `${step.output.interest_rate}%`;
      step.output.interest_rate = 29;
      Object.assign(step, {
        rung: 'coerced',
        repairs: [{ rule: 'percent', at: '/interest_rate', from, to: 29 }],
      });
      for (const later of [...stepsOf(line).slice(turn + 1), line.decision as Step]) later.saw = 'coerced';
    }),
  },
  {
    name: 'the same without its hash',
    by: ['ledger'],
    to: atStep(isClean, (step, line, turn) => {
      const from = `${step.output.interest_rate}%`;
      step.output.interest_rate = 29;
      delete step.sha256;
      Object.assign(step, {
        rung: 'coerced',
        repairs: [{ rule: 'percent', at: '/interest_rate', from, to: 29 }],
      });
      for (const later of [...stepsOf(line).slice(turn + 1), line.decision as Step]) later.saw = 'coerced';
    }),
  },
  {
    name: 'a mended answer called clean',
    by: ['alone'],
    to: atStep(isMended, step => {
      step.rung = 'clean';
    }),
  },
  {
    name: 'what was seen called clean',
    by: ['alone'],
    to: atStep(isMended, (_, line, turn) => {
      stepsOf(line)[turn + 1]!.saw = 'clean';
    }),
  },
  {
    name: 'what the decision saw called clean',
    by: ['alone'],
    to: atStep(isMended, (_, line) => {
      (line.decision as Step).saw = 'clean';
    }),
  },
  {
    name: 'a clean answer called repaired, and seen as that',
    by: HARMLESS,
    to: change(lines => {
      for (const step of [...stepsOf(lines[3]), lines[3]?.decision as Step])
        Object.assign(step, { saw: 'coerced' });
    }),
  },
  {
    name: 'a filled value called clean',
    by: ['alone'],
    to: put(4, ['/decision/repairs', [{ rule: 'null-default', at: '/interest_rate', from: null, to: 10 }]]),
  },
  {
    name: 'a confidence of zero',
    by: ['alone'],
    to: edited(4, '/decision', output =>
      Object.assign(output, { confidence_probability: 0, confidence_level: 'low' }),
    ),
  },
  {
    name: 'a decision that is none',
    by: ['alone'],
    to: edited(4, '/decision', output => Object.assign(output, { approval_decision: 'maybe' })),
  },
  {
    name: 'a rate as text',
    by: ['alone'],
    to: edited(4, '/steps/3', output => Object.assign(output, { interest_rate: '8.5%' })),
  },
  {
    name: 'a rate beyond its bounds',
    by: ['alone'],
    to: edited(4, '/steps/3', output => Object.assign(output, { interest_rate: 31 })),
  },
  {
    name: 'a null',
    by: ['alone'],
    to: edited(4, '/steps/3', output => Object.assign(output, { interest_rate: null })),
  },
  ...[
    'System Error: timeout',
    'System\u200b Error',
    'Sys\u00adtem Error',
    'System\u2060Error',
    'Parsing\u3164Failure',
    '\ufeffmanual review required',
    '...',
    '<your reason>',
    '\u2800\u3164',
  ].map(
    (text): Damage => ({
      name: `a reason that is ${JSON.stringify(text)}`,
      by: ['alone'],
      to: reasonAs(text),
    }),
  ),
  {
    name: 'the name of another agent in an answer',
    by: ['alone'],
    to: edited(2, '/steps/1', output => Object.assign(output, { agent_name: 'Consumer Advocate' })),
  },
  {
    name: 'the decisions of two twins swapped',
    by: ['ledger'],
    to: change(lines => {
      const [a, b] = [lines[0]?.decision, lines[2]?.decision] as [Step, Step];
      Object.assign(lines[0] as Line, { decision: { ...b, saw: a.saw } });
      Object.assign(lines[2] as Line, { decision: { ...a, saw: b.saw } });
    }),
  },
  { name: 'all answers of two items swapped', by: ['ledger'], to: swap(0, 2, 'steps', 'decision') },
  {
    name: 'all answers of one applicant copied to another',
    by: ['alone'],
    to: change(lines => Object.assign(lines[2]!, { steps: lines[0]!.steps, decision: lines[0]!.decision })),
  },
  {
    name: 'a step copied to another item',
    by: ['alone'],
    to: change(lines => {
      stepsOf(lines[2])[0] = stepsOf(lines[0])[0]!;
    }),
  },
  {
    name: 'a decision copied to another item',
    by: ['alone'],
    to: change(lines => Object.assign(lines[2]!, { decision: lines[0]!.decision })),
  },
  {
    name: 'a step copied under the name of another agent',
    by: ['alone'],
    to: change(lines => {
      stepsOf(lines[2])[1] = { ...stepsOf(lines[2])[0]!, agent: stepsOf(lines[2])[1]!.agent };
    }),
  },
  {
    name: 'a step copied, and called shared',
    by: ['alone'],
    to: change(lines => {
      stepsOf(lines[2])[0] = { ...stepsOf(lines[0])[0]!, shared: 'x/risk-*' };
    }),
  },
  {
    name: 'the last answer copied with calls that were made up',
    by: 'said',
    to: copied('0123456789abcdef0123456789abcdef'),
  },
  { name: 'the last answer copied without its calls', by: 'said', to: copied() },
  {
    name: 'an answer copied whose calls were made up',
    by: ['ledger'],
    to: change(lines => {
      stepsOf(lines[2])[0] = {
        ...stepsOf(lines[0])[0]!,
        calls: ['0123456789abcdef0123456789abcdef'],
      };
    }),
  },
  {
    name: 'an answer copied whose calls were taken away',
    by: ['ledger'],
    to: change(lines => {
      stepsOf(lines[2])[0] = { ...stepsOf(lines[0])[0]!, calls: [] };
    }),
  },
  {
    name: 'an answer of an earlier attempt in place of the last',
    by: ['alone'],
    to: atStep(isRetried, step => Object.assign(step, { calls: step.calls.slice(0, 1) })),
  },
  {
    name: 'attempts lowered',
    by: ['alone'],
    to: atStep(isRetried, step => Object.assign(step, { attempts: 1 })),
  },
  {
    name: 'a rejected answer taken away',
    by: ['alone'],
    to: atStep(isRetried, step => void delete step.rejected),
  },
  {
    name: 'a rejected answer taken away with its call',
    by: ['ledger'],
    to: atStep(isRetried, step => {
      delete step.rejected;
      Object.assign(step, { calls: step.calls.slice(-1), attempts: 1 });
    }),
  },
  {
    name: 'a rejected answer edited',
    by: ['ledger'],
    to: atStep(isRetried, step => {
      (step.rejected as JsonObject[])[0]!.raw = '{}';
    }),
  },
  { name: 'tokens changed', by: ['ledger'], to: put(5, ['/steps/1/usage', { prompt: 1, completion: 1 }]) },
  { name: 'a round made up', by: ['ledger'], to: put(5, ['/steps/1/round', 2]) },
  {
    name: 'half of the policies changed',
    by: 'said',
    to: change(lines => {
      for (const line of lines.slice(0, 4)) for (const step of stepsOf(line)) step.policy = 'f'.repeat(16);
    }),
  },
  {
    name: 'all policies changed',
    by: { never: 'how an agent was sampled is said by the step alone; all of them alike contradict nothing' },
    to: change(lines => {
      for (const line of lines)
        for (const step of [...stepsOf(line), line.decision as Step]) step.policy = 'f'.repeat(16);
    }),
  },
  {
    name: 'a key that means nothing',
    by: { never: 'items may have keys of their own, which nobody vouches for' },
    to: put(0, ['/note', 'approved by me']),
  },
  { name: 'ids of two rows swapped', by: ['ids', 'ledger'], to: swap(0, 2, 'id') },
  { name: 'prompts of two rows swapped', by: ['ids', 'ledger'], to: swap(0, 2, 'prompt') },
  {
    name: 'a prompt edited',
    by: ['ids', 'ledger'],
    to: change(lines => {
      lines[0]!.prompt = `${lines[0]!.prompt} `;
    }),
  },
  { name: 'columns of two rows swapped', by: ['ids'], to: swap(0, 2, 'input') },
  {
    name: 'columns shifted by one row',
    by: ['ids'],
    to: change(lines => {
      const inputs = lines.map(line => line.input);
      for (const [nth, line] of lines.entries()) line.input = inputs[(nth + 2) % inputs.length];
    }),
  },
  {
    name: 'rows shifted by one',
    by: ['ids'],
    to: change(lines => {
      for (const line of lines) line.row = Number(line.row) + 1;
    }),
  },
  { name: 'a column edited', by: ['ids'], to: put(6, ['/input/ethnicity_signal', 'other']) },
  { name: 'a column added', by: ['ids'], to: put(6, ['/input/group', 'a']) },
  { name: 'a column taken away', by: ['ids'], to: put(6, ['/input/name', undefined]) },
  { name: 'all columns taken away', by: ['ids'], to: put(6, ['/input', undefined]) },
  { name: 'the row taken away', by: ['ids'], to: put(6, ['/row', undefined]) },
  {
    name: 'row, columns and prompt of two rows swapped',
    by: ['ids', 'ledger'],
    to: swap(0, 2, 'row', 'input', 'prompt'),
  },
  { name: 'an item taken away', by: ['ids'], to: lines => lines.slice(1) },
  { name: 'an item of another run', by: ['ids', 'ledger'], to: put(6, ['/id', 'someone/else']) },
  { name: 'an item twice', by: ['alone'], to: lines => [...lines, lines[0] as Line] },
  { name: 'an id that is blank', by: ['alone'], to: put(6, ['/id', ' ']) },
  {
    name: 'the ordering turned',
    by: ['alone'],
    to: change(lines => void (lines[0]!.ordering as string[]).reverse()),
  },
  {
    name: 'ordering and steps turned',
    by: ['alone'],
    to: change(lines => {
      (lines[0]!.ordering as string[]).reverse();
      stepsOf(lines[0]).reverse();
    }),
  },
  {
    name: 'steps turned, and the ordering taken away',
    by: ['alone'],
    to: change(lines => {
      delete lines[0]!.ordering;
      stepsOf(lines[0]).reverse();
    }),
  },
  {
    name: 'an id that ends in the other ordering',
    by: ['alone'],
    to: change(lines => {
      lines[0]!.id = String(lines[0]!.id).replace(ORDERINGS[0] as string, ORDERINGS[1] as string);
    }),
  },
  { name: 'the last step cut off', by: ['alone'], to: change(lines => void stepsOf(lines[0]).pop()) },
  {
    name: 'the last step cut off, and the ordering with it',
    by: ['alone'],
    to: change(lines => {
      stepsOf(lines[0]).pop();
      (lines[0]!.ordering as string[]).pop();
    }),
  },
  { name: 'the decision taken away', by: ['alone'], to: put(0, ['/decision', undefined]) },
  {
    name: 'agents of two steps exchanged',
    by: ['alone'],
    to: change(lines => {
      const [a, b] = stepsOf(lines[0]);
      [a!.agent, b!.agent] = [b!.agent, a!.agent];
    }),
  },
  { name: 'an agent that nobody has', by: ['alone'], to: put(0, ['/steps/1/agent', 'auditor']) },
  {
    name: 'another topology',
    by: ['ledger'],
    to: put(0, ['/arrangement', { topology: 'independent', passed: 'full', labels: 'named' }]),
  },
  {
    name: 'anonymous labels',
    by: ['ledger'],
    to: put(0, ['/arrangement', { topology: 'sequential', passed: 'full', labels: 'anonymous' }]),
  },
  {
    name: 'verdicts alone',
    by: ['ledger'],
    to: put(0, ['/arrangement', { topology: 'sequential', passed: 'verdict', labels: 'named' }]),
  },
  {
    name: 'peers',
    by: ['alone'],
    to: put(0, ['/arrangement', { topology: 'peer', passed: 'full', labels: 'named' }]),
  },
  {
    name: 'an arrangement that is none',
    by: ['alone'],
    to: put(0, ['/arrangement', { topology: 'round table' }]),
  },
  {
    name: 'a failed step made a denial',
    by: ['ledger'],
    to: change(lines => {
      const step = lines[7]!.decision as Step;
      edit(step, output =>
        Object.assign(output, { approval_decision: 'deny', approval_type: 'DENIAL', interest_rate: 25 }),
      );
    }),
  },
];

type Turn = { agent: string; input: string; output: JsonObject };
const turnsOf = (line: Line | undefined): Turn[] => line?.conversation_history as Turn[];
const SHOWN = {
  risk_manager: 'Risk Manager',
  data_science: 'Data Science',
  regulatory: 'Regulatory Compliance',
  consumer_advocate: 'Consumer Advocate',
};

/** An answer edited in all places that say it; with `shown` in what later agents were shown too. */
const editTurn = (line: Line, turn: number, work: (output: JsonObject) => void, shown: boolean): void => {
  const turns = turnsOf(line);
  const { agent, output } = turns[turn] as Turn;
  work(output);
  const outputs = line.all_agent_outputs as JsonObject[];
  outputs[turn] = output;
  if (turn === turns.length - 1) line.final_output = output;
  if (!shown) return;
  const head = `${(turns[turn] as Turn).input}\n\n${SHOWN[agent as 'regulatory']}:\n`;
  const name = (text: string): string => /"agent_name":"[^"]*"/.exec(text)?.[0] as string;
  for (const later of turns.slice(turn + 1)) {
    const rest = later.input.slice(head.length);
    const end = rest.includes('\n\n') ? rest.indexOf('\n\n') : rest.length;
    const text = JSON.stringify(output);
    later.input = head + text.replace(name(text), name(rest)) + rest.slice(end);
  }
};
const shownAs = (turn: number, work: (input: string, line: Line) => string) =>
  change(lines => {
    const line = lines[0] as Line;
    (turnsOf(line)[turn] as Turn).input = work((turnsOf(line)[turn] as Turn).input, line);
  });
const decided = (work: (decision: JsonObject) => void) =>
  change(lines => work(lines[0]!.business_decision as JsonObject));
const rate = (output: JsonObject): void => {
  output.interest_rate = Number(output.interest_rate) + 0.5;
};

export const TO_RESULTS: readonly Damage[] = [
  {
    name: 'a rate of the first turn changed',
    by: ['alone'],
    to: change(lines => editTurn(lines[0]!, 0, rate, false)),
  },
  {
    name: 'a decision of the second turn changed',
    by: ['alone'],
    to: change(lines => editTurn(lines[0]!, 1, flip, false)),
  },
  {
    name: 'a rate of the last turn changed, which nobody was shown',
    by: ['provenance'],
    to: change(lines => editTurn(lines[0]!, 3, rate, false)),
  },
  {
    name: 'a rate changed, and in all that shows it',
    by: ['provenance'],
    to: change(lines => editTurn(lines[0]!, 0, rate, true)),
  },
  { name: 'the decision turned', by: ['provenance'], to: decided(flip) },
  {
    name: 'the decision turned under a mark that says nothing',
    by: ['provenance'],
    to: change(lines => {
      flip(lines[0]!.business_decision as JsonObject);
      lines[0]!._fw = { rung: 'clean', repairs: [] };
    }),
  },
  {
    name: 'the bare prompt as what the third agent was shown',
    by: ['alone'],
    to: shownAs(2, (_, line) => String(line.initial_prompt)),
  },
  {
    name: 'what was shown cut in the middle of an answer',
    by: ['alone'],
    to: shownAs(2, input => input.slice(0, -100)),
  },
  {
    name: 'what was shown cut before the last answer',
    by: ['alone'],
    to: shownAs(2, (_, line) => turnsOf(line)[1]!.input),
  },
  {
    name: 'another decision shown than was given',
    by: ['alone'],
    to: shownAs(2, input => input.replace(/"(approve|deny)"/, (_, said) => `"${other(said)}"`)),
  },
  {
    name: 'another confidence shown than was given',
    by: ['alone'],
    to: shownAs(3, input => input.replace(/"confidence_probability":\d+/, '"confidence_probability":1')),
  },
  {
    name: 'a reason shown that nobody gave',
    by: ['alone'],
    to: shownAs(1, input => input.replace(/"confidence_reason":"/, '$&No. ')),
  },
  {
    name: 'an answer left out of what was shown',
    by: ['alone'],
    to: shownAs(3, (input, line) =>
      input.replace(turnsOf(line)[1]!.input.slice(String(line.initial_prompt).length), ''),
    ),
  },
  {
    name: 'two answers exchanged in what was shown',
    by: ['alone'],
    to: shownAs(2, (_, line) => {
      const [a, b] = turnsOf(line);
      return `${line.initial_prompt}${[b, a].map(turn => `\n\n${SHOWN[turn!.agent as 'regulatory']}:\n${JSON.stringify(turn!.output)}`).join('')}`;
    }),
  },
  {
    name: 'an answer shown under the name of another',
    by: ['alone'],
    to: shownAs(1, input => input.replace('\n\nRisk Manager:\n', '\n\nRegulatory Compliance:\n')),
  },
  { name: 'a line behind what was shown', by: ['alone'], to: shownAs(2, input => `${input}\n\nDeny.`) },
  {
    name: 'a line behind the prompt that the first was shown',
    by: ['provenance', 'ledger'],
    to: shownAs(0, input => `${input}\n`),
  },
  {
    name: 'a blank in what was shown',
    by: ['provenance'],
    to: shownAs(1, input => input.replace('{"agent_name"', '{ "agent_name"')),
  },
  {
    name: 'the name of an agent in what was shown',
    by: ['provenance'],
    to: shownAs(1, input => input.replace('"agent_name":"', '$&The ')),
  },
  {
    name: 'what another applicant was shown',
    by: ['alone'],
    to: change(lines => {
      turnsOf(lines[0])[2]!.input = turnsOf(lines[2])[2]!.input;
    }),
  },
  {
    name: 'the name of another agent in an answer',
    by: ['alone'],
    to: change(lines =>
      editTurn(lines[0]!, 3, output => Object.assign(output, { agent_name: 'Risk Manager' }), false),
    ),
  },
  {
    name: 'the key of another agent in an answer',
    by: ['alone'],
    to: change(lines =>
      editTurn(lines[0]!, 0, output => Object.assign(output, { agent_name: 'regulatory' }), true),
    ),
  },
  {
    name: 'the name of an agent in the decision',
    by: ['alone'],
    to: decided(output => Object.assign(output, { agent_name: 'Data Science' })),
  },
  { name: 'a name in an echo', by: ['alone'], to: put(0, ['/final_output/agent_name', 'Somebody']) },
  {
    name: 'the ordering turned',
    by: ['alone'],
    to: change(lines => {
      lines[0]!.ordering = String(lines[0]!.ordering).split(',').reverse().join();
    }),
  },
  {
    name: 'turns and ordering exchanged',
    by: ['alone'],
    to: change(lines => {
      const line = lines[0]!;
      const turns = turnsOf(line);
      [turns[0], turns[1]] = [turns[1]!, turns[0]!];
      line.all_agent_outputs = turns.map(({ output }) => output);
      line.ordering = turns.map(({ agent }) => agent).join();
    }),
  },
  {
    name: 'a turn taken away everywhere but in what was shown',
    by: ['alone'],
    to: change(lines => {
      const line = lines[0]!;
      line.conversation_history = turnsOf(line).filter((_, turn) => turn !== 1);
      line.all_agent_outputs = turnsOf(line).map(({ output }) => output);
      line.ordering = turnsOf(line)
        .map(({ agent }) => agent)
        .join();
    }),
  },
  {
    name: 'the last turn taken away everywhere',
    by: ['ids', 'provenance'],
    to: change(lines => {
      const line = lines[0]!;
      turnsOf(line).pop();
      line.all_agent_outputs = turnsOf(line).map(({ output }) => output);
      line.final_output = turnsOf(line).at(-1)!.output;
      line.ordering = turnsOf(line)
        .map(({ agent }) => agent)
        .join();
    }),
  },
  { name: 'a null', by: ['alone'], to: decided(output => Object.assign(output, { interest_rate: null })) },
  {
    name: 'a confidence of zero',
    by: ['alone'],
    to: decided(output => Object.assign(output, { confidence_probability: 0 })),
  },
  {
    name: 'an error behind a U+200B',
    by: ['alone'],
    to: decided(output =>
      Object.assign(output.reasoning as JsonObject, { risk_assessment: 'System\u200b Error' }),
    ),
  },
  { name: 'a prompt edited', by: ['alone'], to: put(0, ['/initial_prompt', 'Approve.']) },
  {
    name: 'a prompt edited, and in all that shows it',
    by: ['ids', 'provenance'],
    to: change(lines => {
      const line = lines[0]!;
      const before = String(line.initial_prompt);
      line.initial_prompt = `${before} `;
      for (const turn of turnsOf(line)) turn.input = turn.input.replace(before, `${before} `);
    }),
  },
  { name: 'the numbers of two rows exchanged', by: ['ids', 'provenance'], to: swap(0, 2, 'prompt_id') },
  { name: 'the decisions of two results exchanged', by: ['provenance'], to: swap(0, 2, 'business_decision') },
  {
    name: 'the conversations of two results exchanged',
    by: ['alone'],
    to: swap(0, 2, 'conversation_history', 'all_agent_outputs', 'final_output', 'business_decision'),
  },
  { name: 'a sample that nobody asked', by: ['ids', 'provenance'], to: put(0, ['/sample', 2]) },
  { name: 'a result twice', by: ['alone'], to: lines => [...lines, lines[0] as Line] },
  { name: 'a result taken away', by: ['ids'], to: lines => lines.slice(1) },
  { name: 'a time that is none', by: ['alone'], to: put(0, ['/timestamp', 'yesterday']) },
  {
    name: 'another time',
    by: { never: 'nobody else says when a result was written' },
    to: put(0, ['/timestamp', '2020-01-01T00:00:00']),
  },
  { name: 'another mode', by: ['alone'], to: put(0, ['/mode', 'parallel']) },
];

const answersOf = (line: Line | undefined): JsonObject[] => line?.agents as JsonObject[];
const inProvenance = (work: (line: Line) => void) => change(lines => work(lines[0] as Line));

/** To the lines of provenance beside results that are as they were. */
export const TO_PROVENANCE: readonly Damage[] = [
  {
    name: 'a rung better than its entries',
    by: ['provenance'],
    to: change(lines => {
      for (const line of lines) for (const answer of answersOf(line)) answer.rung = 'clean';
    }),
  },
  {
    name: 'what was seen better than what was said',
    by: ['provenance'],
    to: change(lines => {
      for (const line of lines) for (const answer of answersOf(line)) answer.saw = 'clean';
    }),
  },
  {
    name: 'rungs and entries taken away',
    by: ['ledger'],
    to: change(lines => {
      for (const line of lines) {
        line.rung = 'clean';
        for (const answer of answersOf(line))
          Object.assign(answer, {
            rung: 'clean',
            saw: 'clean',
            repairs: (answer.repairs as JsonObject[]).filter(({ rule }) => rule === 'agent-name'),
          });
      }
    }),
  },
  {
    name: 'attempts lowered',
    by: ['ledger'],
    to: change(lines => {
      for (const line of lines) for (const answer of answersOf(line)) answer.attempts = 1;
    }),
  },
  {
    name: 'calls of two agents exchanged',
    by: ['ledger'],
    to: inProvenance(line => {
      const [a, b] = answersOf(line);
      [a!.calls, b!.calls] = [b!.calls, a!.calls];
    }),
  },
  {
    name: 'the hash of another result',
    by: ['provenance'],
    to: change(lines => {
      lines[0]!.sha256 = lines[1]!.sha256;
    }),
  },
  { name: 'a line taken away', by: ['provenance'], to: lines => lines.slice(1) },
  {
    name: 'another id',
    by: ['ledger'],
    to: inProvenance(line => {
      line.id = 'somebody';
    }),
  },
  {
    name: 'the names that models spelt taken away',
    by: ['provenance'],
    to: change(lines => {
      for (const line of lines)
        for (const answer of answersOf(line))
          answer.repairs = (answer.repairs as JsonObject[]).filter(({ rule }) => rule !== 'agent-name');
    }),
  },
];

/** To a document of the results, as its text. */
export const TO_DOCUMENT: readonly { name: string; by: Damage['by']; to(text: string): string }[] = [
  {
    name: 'results that are not sorted',
    by: ['alone'],
    to: text => turned(text, ({ results }) => void (results as unknown[]).reverse()),
  },
  {
    name: 'two results exchanged',
    by: ['alone'],
    to: text =>
      turned(text, ({ results }) => void (results as unknown[]).unshift((results as unknown[]).pop())),
  },
  {
    name: 'no model',
    by: ['alone'],
    to: text => turned(text, ({ metadata }) => void delete (metadata as JsonObject).model),
  },
  {
    name: 'a model that is no text',
    by: ['alone'],
    to: text =>
      turned(text, ({ metadata }) => {
        (metadata as JsonObject).model = ['a'];
      }),
  },
  {
    name: 'another count',
    by: ['alone'],
    to: text =>
      turned(text, ({ metadata }) => {
        (metadata as JsonObject).count = 7;
      }),
  },
  {
    name: 'another ordering',
    by: ['alone'],
    to: text =>
      turned(text, ({ metadata }) => {
        (metadata as JsonObject).ordering = 'consumer,risk,data,regulatory';
      }),
  },
  { name: 'incomplete', by: ['alone'], to: text => text.replace('"complete"', '"incomplete"') },
  {
    name: 'a key twice',
    by: ['alone'],
    to: text => text.replace('"status"', '"status":"incomplete","status"'),
  },
  { name: 'cut off', by: ['alone'], to: text => text.slice(0, -30) },
  {
    name: 'another model',
    by: { never: 'no result says who answered; the ledger does' },
    to: text =>
      turned(text, ({ metadata }) => {
        (metadata as JsonObject).model = 'gpt';
      }),
  },
  {
    name: 'not sorted, and without metadata',
    by: { never: 'older documents have none, and nothing is asked of them' },
    to: text =>
      turned(text, document => {
        delete document.metadata;
        (document.results as unknown[]).reverse();
      }),
  },
];

function turned(text: string, work: (document: JsonObject) => void): string {
  const document = JSON.parse(text) as JsonObject;
  work(document);
  return JSON.stringify(document);
}
