/**
 * tune: which settings of a server give the most under bounds of latency. It starts the server itself, once a setting, and
 * stops it again; the space is ranked before, in virtual time.
 *
 *   fw tune tune.yaml
 *   fw tune tune.yaml --plan
 */
import { basename, extname } from 'node:path';
import { version } from '../../../engine/core/config/package.ts';
import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { writeDocument } from '../../../engine/core/files/saving.ts';
import { EXIT, Fatal, usageError } from '../../../engine/core/item/failure.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { command } from '../../../engine/flow/command.ts';
import { listen, sayAs } from '../../kit/execute.ts';
import { MACHINE_OPTIONS, presetGiven } from '../../simulator/preset-options.ts';
import type { Preset } from '../../simulator/presets.ts';
import { MOST_RACED, rank } from './rank.ts';
import { tune } from './tune.ts';
import { gridOf, MEMORY, readStudy, type Setting, type Study, studyKey } from './tune-file.ts';
import { tunePage } from './tune-page.ts';
import { openFolder, openRecord } from './tune-record.ts';
import { readAsked } from './tune-requests.ts';
import { autoTuneLines, resultOf } from './tune-result.ts';
import { rankingTable, settingTable, summary } from './tune-words.ts';
import { killServers, stopMarked, TIMES } from './tuned-server.ts';

const say = sayAs('fw tune');

export default command({
  name: 'tune',
  summary: 'Find the best settings of a server: fw starts, measures and stops it for you.',
  positional: 'TUNE.yaml',
  examples: [
    'fw tune tune.yaml',
    'fw tune tune.yaml --plan',
    'fw tune tune.yaml --out monday/ && jq .recommended monday/tune.json',
  ],
  options: {
    plan: {
      type: 'boolean',
      description:
        'Rank the settings in virtual time and start nothing. Needs a preset in the file, or --model-config and --gpu.',
    },
    out: {
      type: 'string',
      file: 'write-folder',
      description:
        'Folder for measurements, logs and results; an earlier folder is continued. Default: the name of the file without its extension.',
    },
    json: { type: 'boolean', description: 'Write the results as JSON to standard output.' },
    ...MACHINE_OPTIONS,
  },

  async run({ plan, out, json, ...machine }, [path, ...more]) {
    if (path === undefined) throw usageError('expected a tune file, found none: fw tune tune.yaml');
    if (more.length > 0) throw usageError(`expected one tune file, found another: "${more[0]}"`);
    const study = readStudy(path);
    // a model and a card on the command line take the place of the preset of the file
    const own = machine['model-config'] === undefined ? study.preset : undefined;
    const preset = presetGiven({ ...machine, preset: own })?.preset ?? null;
    const settings = gridOf(study.space, [MEMORY]).length;
    if (preset === null && (plan || settings > MOST_RACED))
      throw usageError(
        `${path}: expected a preset to rank ${counted(settings, 'setting')} by, found none: name the nearest one, e.g. 3b-a6000 (docs/simulator.md lists them)${plan ? '' : `, or try at most ${MOST_RACED} settings`}`,
      );
    if (plan) return planned(study, preset as Preset, json === true);
    return measured(study, preset, { out: out ?? nameOf(path), json: json === true });
  },
});

const nameOf = (path: string): string => basename(path, extname(path));

async function planned(study: Study, preset: Preset, json: boolean): Promise<number> {
  const asked = await readAsked(study, { signal: new AbortController().signal, warn: say });
  const lengths = asked.planned();
  if (lengths === null)
    throw usageError(
      `${study.path}: expected load.output_tokens, the length of an answer, found none: without a server it cannot be measured`,
    );
  const shares = study.space[MEMORY];
  const memory: Setting = shares === undefined ? {} : { [MEMORY]: Math.max(...(shares as number[])) };
  const settings = gridOf(study.space, [MEMORY]).map(setting => ({
    ...study.present,
    ...setting,
    ...memory,
  }));
  const ranked = rank(study, preset, lengths, settings);
  const { midLoad, nearSaturation } = preset.error;
  say(
    `virtual time, ${preset.name}: ±${Math.round(100 * midLoad)} % at mid load, ±${Math.round(100 * nearSaturation)} % near saturation; nothing was started`,
  );
  await writePage(
    json
      ? `${JSON.stringify({ plan: 1, preset: preset.name, ranked }, null, 1)}\n`
      : rankingTable(study, ranked),
  );
  return EXIT.ok;
}

async function measured(
  study: Study,
  preset: Preset | null,
  { out, json }: { out: string; json: boolean },
): Promise<number> {
  const stopping = new AbortController();
  const asked = await readAsked(study, { signal: stopping.signal, warn: say });
  const key = studyKey(study);
  const folder = openFolder(out);
  const stopped = stoppable(stopping);
  try {
    const left = await stopMarked(folder.mark, TIMES);
    for (const { name, pid } of left) say(`stopped ${name} (process ${pid}), left over from a killed run`);
    const record = openRecord(folder.file('tune.ndjson'), key);
    if (record.lines.length > 0)
      say(`${out} has ${counted(record.lines.length, 'line')} of this study: continuing from there`);
    const outcome = await tune(
      {
        study,
        record,
        mark: folder.mark,
        times: TIMES,
        signal: stopping.signal,
        say,
        logFor: folder.log,
        endpoint: asked.endpoint,
        workload: asked.workload,
      },
      preset,
      asked.planned(),
    );
    const result = resultOf({ study, key, record, outcome, fw: version(), preset: preset?.name ?? null });
    const document = `${JSON.stringify(result, null, 1)}\n`;
    const text = `${settingTable(result)}\n${summary(result)}`;
    await writePage(json ? document : text);
    if (json) process.stderr.write(text);
    for (const [name, content] of [
      ['tune.json', document],
      ['tune.html', tunePage(result)],
      ['result.txt', autoTuneLines(result)],
    ] as const)
      for (const note of writeDocument(folder.file(name), content)) say(note);
    say(
      `no server of this study runs now; before it nothing listened at ${study.endpoint}. ${folder.file('tune.html')}`,
    );
    return result.verdict === 'nothing measured' ? EXIT.failed : EXIT.ok;
  } catch (error) {
    if (stopped.code === 0 || error instanceof Fatal) throw error;
    say('stopped: no server of this study runs now; the same command continues from here');
    return stopped.code;
  } finally {
    stopped.off();
    killServers();
    folder.release();
  }
}

/** The first signal stops the server and ends; a second one ends both at once. */
function stoppable(stopping: AbortController): { readonly code: number; off(): void } {
  let code = 0;
  const off = (): void => {
    unlisten();
    process.off('exit', killServers);
  };
  const unlisten = listen(({ name, exit }) => {
    if (code > 0) {
      killServers();
      off();
      process.kill(process.pid, name);
      return;
    }
    code = exit;
    say('stopping the server (again: at once)');
    stopping.abort();
  });
  process.on('exit', killServers);
  return {
    get code() {
      return code;
    },
    off,
  };
}
