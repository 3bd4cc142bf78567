/**
 * bench FILE.yaml: the same items through several models, one after the other: speed, validity, agreement, cost.
 *
 *   fw bench models.yaml --html models.html
 */
import { relative } from 'node:path';
import { version } from '../../../engine/core/config/package.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { writeDocument } from '../../../engine/core/files/saving.ts';
import { EXIT, usageError } from '../../../engine/core/item/failure.ts';
import { showProgress } from '../../../engine/running/run.ts';
import { listen, sayAs } from '../../kit/execute.ts';
import { OPTIONS } from '../bench/bench-options.ts';
import { measureModels, readChoice } from './measure-models.ts';
import { modelsPage } from './models-page.ts';
import { modelsCsv, modelsJson, modelsTable } from './models-result.ts';

const OWN = ['json', 'csv', 'html'];

/** Resolves to the exit code: 1 where a model could not be measured, or an item of one was not accepted. */
export async function benchModels(
  files: readonly string[],
  given: Readonly<Record<string, unknown>>,
): Promise<number> {
  const [path, ...more] = files as [string];
  if (more.length > 0)
    throw usageError(`expected one file of models, found ${files.length}: fw bench models.yaml`);
  for (const [name, schema] of Object.entries(OPTIONS)) {
    const usual = 'default' in schema ? schema.default : undefined;
    if (!OWN.includes(name) && given[name] !== undefined && given[name] !== usual)
      throw usageError(
        `--${name}: expected only --json, --csv or --html with a file of models, found an option for a load; the file says what to ask`,
      );
  }
  const say = sayAs('fw bench');
  const choice = readChoice(path);
  const began = new Date().toISOString();
  const outcome = await measureModels(choice, {
    say,
    progress: showProgress,
    stoppable: listen,
  });
  const { label, reference } = choice;
  const all = modelsJson(outcome, {
    version: version(),
    began,
    pipeline: relative(process.cwd(), choice.pipeline),
    outcome: choice.outcome,
    label,
    reference,
  });
  await writePage(modelsTable(all));
  const write = (name: unknown, text: () => string): void => {
    if (typeof name === 'string') for (const note of writeDocument(name, text())) say(note);
  };
  write(given.json, () => `${JSON.stringify(all, null, 1)}\n`);
  write(given.csv, () => modelsCsv(all));
  write(given.html, () => modelsPage(all));
  if (outcome.stopped !== null) return outcome.stopped;
  return all.models.some(({ broken, accepted, items }) => broken !== null || accepted < items)
    ? EXIT.failed
    : EXIT.ok;
}
