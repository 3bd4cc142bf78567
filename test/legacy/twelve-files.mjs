/**
 * Batch 4 checked by somebody else: twelve files, in each every row once, and each agent in the place that the name of the
 * file says. It reads the table and the results by itself and takes nothing from engine/.
 *
 *   node test/legacy/twelve-files.mjs OUT prompts.csv [ROWS]
 *
 * It prints a line a file, and exits with 1 after the first thing that is wrong.
 */
import { createReadStream, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const AGENTS = {
  risk: { key: 'risk_manager', display: 'Risk Manager' },
  data: { key: 'data_science', display: 'Data Science' },
  regulatory: { key: 'regulatory', display: 'Regulatory Compliance' },
  consumer: { key: 'consumer_advocate', display: 'Consumer Advocate' },
};
/** By their numbers among the 24 of the study. */
const ORDERINGS = {
  7: 'risk data consumer regulatory',
  8: 'risk consumer regulatory data',
  15: 'data risk regulatory consumer',
  16: 'data risk consumer regulatory',
  17: 'data regulatory risk consumer',
  18: 'data regulatory consumer risk',
  19: 'data consumer risk regulatory',
  20: 'consumer risk regulatory data',
  21: 'consumer risk data regulatory',
  22: 'consumer regulatory risk data',
  23: 'consumer regulatory data risk',
  24: 'consumer data risk regulatory',
};
const KEYS = [
  'mode',
  'initial_prompt',
  'conversation_history',
  'all_agent_outputs',
  'final_output',
  'business_decision',
  'prompt_id',
  'ordering',
  'timestamp',
];
const BAD = ['System Error', 'Parsing Failure', 'Manual Review Required'];

const [out, csv, wanted] = process.argv.slice(2);
const prompts = columnOf(readFileSync(csv, 'utf8'), 'prompt');
const rows = wanted === undefined ? prompts.length : Number(wanted);
const names = Object.values(ORDERINGS).map(order => `sequential_${order.replaceAll(' ', '_')}_legacy.jsonl`);
const there = readdirSync(out).filter(name => /^sequential_.*\.jsonl?$/.test(name));
expect(same(there.sort(), names.sort()), `the twelve files of batch 4, found ${there.join(', ')}`);
let results = 0;
for (const [number, order] of Object.entries(ORDERINGS)) {
  const agents = order.split(' ').map(short => AGENTS[short]);
  const name = `sequential_${order.replaceAll(' ', '_')}_legacy.jsonl`;
  const seen = new Set();
  for await (const line of createInterface({ input: createReadStream(join(out, name)) })) {
    const result = JSON.parse(line);
    check(result, agents, `${name}:${seen.size + 1}`);
    expect(!seen.has(result.prompt_id), `${name}: row ${result.prompt_id} once`);
    seen.add(result.prompt_id);
  }
  expect(seen.size === rows, `${name}: ${rows} results, found ${seen.size}`);
  results += seen.size;
  console.log(`ordering ${number}: ${seen.size} results of ${order}`);
}
console.log(`${names.length} files, ${results} results`);

function check(result, agents, where) {
  const {
    conversation_history: turns,
    all_agent_outputs: outputs,
    business_decision: decision,
    prompt_id: row,
  } = result;
  expect(
    same(Object.keys(result), KEYS),
    `${where}: the keys ${KEYS.join(', ')}, found ${Object.keys(result)}`,
  );
  expect(result.mode === 'sequential', `${where}: mode sequential`);
  expect(Number.isInteger(row) && row >= 1 && row <= rows, `${where}: a row from 1 to ${rows}, found ${row}`);
  expect(result.initial_prompt === prompts[row - 1], `${where}: the prompt of row ${row}`);
  const keys = agents.map(({ key }) => key);
  expect(result.ordering === keys.join(), `${where}: ordering ${keys}, found ${result.ordering}`);
  expect(
    same(
      turns.map(({ agent }) => agent),
      keys,
    ),
    `${where}: turns of ${keys}`,
  );
  expect(
    same(
      turns.map(({ output }) => output),
      outputs,
    ),
    `${where}: outputs as in the turns`,
  );
  expect(same(outputs.at(-1), result.final_output), `${where}: the last output as final_output`);
  let shown = result.initial_prompt;
  for (const [at, { input, output }] of turns.entries()) {
    expect(input.startsWith(shown), `${where}: turn ${at + 1} shown what the turn before it was shown`);
    const added = input.slice(shown.length);
    if (at === 0) expect(added === '', `${where}: nothing but the prompt shown to the first agent`);
    else {
      const head = `\n\n${agents[at - 1].display}:\n`;
      expect(
        added.startsWith(head),
        `${where}: turn ${at + 1} shown the answer of ${agents[at - 1].display}`,
      );
      const answer = JSON.parse(added.slice(head.length));
      // the file has the agent's own name, whatever the model called it
      expect(
        same({ ...answer, agent_name: '' }, { ...turns[at - 1].output, agent_name: '' }),
        `${where}: turn ${at + 1} shown the answer as it is in turn ${at}`,
      );
    }
    expect(['approve', 'deny'].includes(output.approval_decision), `${where}: a decision in turn ${at + 1}`);
    shown = input;
  }
  expect(['approve', 'deny'].includes(decision.approval_decision), `${where}: a last decision`);
  expect(typeof decision.interest_rate === 'number', `${where}: a rate in the last decision`);
  expect(decision.confidence_probability > 0, `${where}: a confidence above 0 in the last decision`);
  const text = JSON.stringify(result);
  expect(!/[:,[]null[,}\]]/.test(text), `${where}: no null`);
  for (const bad of BAD) expect(!JSON.stringify([outputs, decision]).includes(bad), `${where}: no "${bad}"`);
}

/** The values of a column of CSV: fields may be in quotes, and then hold commas, lines and doubled quotes. */
function columnOf(text, column) {
  const table = [];
  let [row, field, quoted] = [[], '', false];
  const endRow = () => {
    if (row.length > 0 || field !== '') table.push([...row, field]);
    [row, field] = [[], ''];
  };
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (quoted && letter === '"' && text[at + 1] === '"') field += text[at++];
    else if (letter === '"') quoted = !quoted;
    else if (quoted) field += letter;
    else if (letter === ',') {
      row.push(field);
      field = '';
    } else if (letter === '\n') endRow();
    else if (letter !== '\r') field += letter;
  }
  endRow();
  const at = table[0].indexOf(column);
  return table.slice(1).map(each => each[at]);
}

function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

function expect(holds, what) {
  if (holds) return;
  console.error(`expected ${what}`);
  process.exit(1);
}
