/** fw plan --against: files of measured runs, and what is said of them. The runs are made here, by an engine that is known. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { against, renderAgainst, summaryOf } from '../../products/plan/against/against.ts';
import { readMeasured } from '../../products/plan/against/measured-runs.ts';
import { adjusted, replay } from '../../products/plan/against/replay.ts';
import { presetGiven } from '../../products/simulator/preset-options.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const HEAD =
  'exp,model,hardware,tp,max_num_seqs,max_num_batched_tokens,kv_blocks,rate,duration,system_prompt_len,question_len,output_len,system_prompts,users_per_prompt,multi_turn,ttft_mean,ttft_p90,ttft_p99,itl_mean,e2e_mean,e2e_p90,e2e_p99';
const MODEL = 'Qwen/Qwen2.5-7B-Instruct';

function file(lines: readonly string[]): string {
  const path = join(folder(), 'runs.csv');
  writeFileSync(path, `${[HEAD, ...lines].join('\r\n')}\r\n`);
  return path;
}

const line = (rate: number, figures: string): string =>
  `1,${MODEL},H100,1,128,2048,60000,${rate},60,100,400,120,5,4,True,${figures}`;

/** Two stages of a server that is `factor` slower than what is foretold. */
function slower(factor: number): string {
  const path = file([line(2, '1,1,1,,1,1,1'), line(8, '1,1,1,,1,1,1')]);
  const { preset } = presetGiven({ 'model-config': MODEL, gpu: 'h100-80g' })!;
  const limits = { maxNumSeqs: 128, maxNumBatchedTokens: 2048, kvTokens: 960_000 };
  const truth = adjusted({ ...preset, limits }, { factor, requestMs: 3 });
  return file(
    readMeasured(path).map((run, at) => {
      const { predicted: told } = replay(run, truth, at > 0);
      return line(
        at === 0 ? 2 : 8,
        [
          told.ttft_mean,
          told.ttft_p90,
          told.ttft_p99,
          told.itl_mean,
          told.e2e_mean,
          told.e2e_p90,
          told.e2e_p99,
        ].join(','),
      );
    }),
  );
}

test('runs of the engine itself are foretold', () => {
  const path = slower(1);
  const replayed = against({ path, given: {}, calibrating: undefined });
  for (const { off } of replayed) {
    expect(Math.abs(off.e2e_mean!)).toBeLessThan(0.01);
    expect(off.ttft_mean!).toBeLessThan(0);
  }
  expect(summaryOf(replayed).find(({ figure }) => figure === 'e2e_mean')?.n).toBe(2);
});

test('calibrated on one stage, the other of a slower server comes out', () => {
  const path = slower(1.3);
  const [plain] = against({ path, given: {}, calibrating: undefined });
  expect(plain!.off.e2e_mean).toBeLessThan(-0.15);
  const other = against({ path, given: {}, calibrating: 'first' });
  expect(other).toHaveLength(1);
  expect(Math.abs(other[0]!.off.e2e_mean!)).toBeLessThan(0.01);
  expect(Math.abs(other[0]!.off.ttft_mean!)).toBeLessThan(0.02);
  expect(renderAgainst(other, path, 'first')).toContain('calibrated on the first stage of each server');
  expect(() => against({ path, given: {}, calibrating: 'others' })).toThrow(
    /expected runs of two models at least/,
  );
});

test('a card and a model on the command line go before those of the file', () => {
  const [run] = against({ path: slower(1), given: { gpu: 'a100-80g' }, calibrating: undefined });
  expect(run!.preset.file.gpu).toContain('A100');
  expect(run!.off.e2e_mean).toBeGreaterThan(0.3);
});

test.each([
  [['1,2'], /runs\.csv:2: expected 22 columns, as the first line has, found 2/],
  [[line(2, '1,1,1,x,1,1,1')], /runs\.csv:2: expected a number in itl_mean, found "x"/],
  [[line(0, '1,1,1,1,1,1,1')], /runs\.csv:2: expected a number above 0 in rate/],
  [[`"1",${line(2, '1,1,1,1,1,1,1').slice(2)}`], /without quotes/],
  [[], /expected measured runs, found none/],
])('a file that is none is refused, %#', (lines, message) => {
  expect(() => readMeasured(file(lines))).toThrow(message);
});

test('what fw bench --json writes is read, and a card has to be named', async () => {
  const path = join(folder(), 'bench.json');
  const bench = {
    model_id: MODEL,
    max_concurrency: 4,
    completed: 40,
    total_input_tokens: 8_000,
    total_output_tokens: 2_000,
  };
  writeFileSync(
    path,
    JSON.stringify([{ ...bench, mean_e2el_ms: 330, mean_itl_ms: 6.5, mean_ttft_ms: 20, p99_e2el_ms: 0 }]),
  );
  expect(() => against({ path, given: {}, calibrating: undefined })).toThrow(/expected a model and a card/);
  const { code, stdout } = await fw(`fw plan --against ${path} --gpu h100-80g --json`);
  expect(code).toBe(0);
  const { stages, errors } = JSON.parse(stdout);
  expect(Math.abs(stages[0].off.e2e_mean)).toBeLessThan(0.25);
  expect(stages[0].off.e2e_p99).toBeNull();
  expect(errors.map(({ figure }: { figure: string }) => figure)).toEqual([
    'e2e_mean',
    'itl_mean',
    'ttft_mean',
  ]);
});

test('a stage of a model that nobody knows is named, and the others are foretold', async () => {
  const path = file([
    line(2, '20,30,40,6.6,810,820,830'),
    line(2, '20,30,40,6.6,810,820,830').replace(MODEL, 'nobody/Knows-7B'),
  ]);
  const { code, stdout } = await fw(`fw plan --against ${path}`);
  expect(code).toBe(0);
  expect(stdout).toContain('1 stage, nothing calibrated');
  expect(stdout).toMatch(
    /runs\.csv:3: not foretold: --model-config: expected a config\.json file, or a known model/,
  );
});
