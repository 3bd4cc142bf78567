/**
 * demo: sixty loan applications through the packaged study, on a simulated server in this process. Needs nothing.
 *
 *   fw demo
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { packageRoot } from '../../engine/core/config/package.ts';
import { descriptors, socketsOf } from '../../engine/core/files/process.ts';
import { EXIT, ioError, usageError } from '../../engine/core/item/failure.ts';
import { type Item, rungOf } from '../../engine/core/item/item.ts';
import { aligned } from '../../engine/core/item/wording.ts';
import { valueAt } from '../../engine/core/json/pointer.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { resolveOptions, type Values } from '../../engine/flow/options.ts';
import { startSimulator } from '../../products/simulator/simulator.ts';
import run from './run.ts';

const ROWS = 60;
/** What real servers and models do wrong, so often that sixty rows meet all of it; no hang, which costs a timeout. */
const FAULTS = 'fence=0.04,chatty=0.03,escape=0.03,truncated=0.01,429=0.02,500=0.01,drop=0.01';

export default command({
  name: 'demo',
  summary: 'Run a small study on a simulated server, without a GPU, a model or data.',
  positional: '[FOLDER]',
  examples: ['fw demo', 'fw demo tryout'],
  options: {},

  async run(_options, [folder = 'fw-demo', ...more]) {
    if (more.length > 0) throw usageError(`expected one folder, found also ${visible(more.join(' '))}`);
    const table = join(folder, 'applications.csv');
    const items = join(folder, 'items.ndjson');
    const ledger = join(folder, 'ledger');
    putTable(folder, table);
    const say = (text: string): void => void process.stdout.write(`${text}\n\n`);
    // of the same name each time, so that each demo meets the same faults
    const server = await startSimulator({ port: 0, seed: 7, latency: '40ms', faults: FAULTS, name: 'demo' });
    try {
      say(
        `fw demo: ${ROWS} loan applications (${table}). Four agents judge each, one after the other, and a fifth
decides. A simulated server answers. Its answers are made up, and some are broken, as those of models are.`,
      );
      const pipeline = join(packageRoot(), 'pipelines', 'fairwatch', 'chain.yaml');
      say(
        `$ fw run ${shortest(pipeline)} ${table} --endpoint ${server.url} --ledger ${ledger} --output ${items}`,
      );
      // both ends of each connection are in this process
      const most = Math.floor(socketsOf(descriptors()) / 2);
      const given = { endpoint: [server.url], ledger, output: items };
      const values = valuesOf(most < ROWS ? { ...given, 'endpoint-limit': most } : given);
      const code = await run.run(values, [pipeline, table]);
      if (code <= EXIT.failed) say(`\n${pageOn(items, ledger)}`);
      return code;
    } finally {
      await server.close();
    }
  },
});

/** Exit 64 where a file of that name holds something else, 74 where none can be written. */
function putTable(folder: string, path: string): void {
  const packaged = readFileSync(join(packageRoot(), 'fixtures', 'applications-60.csv'));
  try {
    if (!existsSync(path)) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(path, packaged, { flag: 'wx' });
    } else if (!readFileSync(path).equals(packaged)) {
      throw usageError(`expected a folder for the demo alone, found another ${path}: fw demo FOLDER`);
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw ioError(`expected to write ${path}, found ${code}`);
  }
}

function valuesOf(given: Values): Values {
  return resolveOptions(run.options, given, (name, message) => {
    throw new Error(`--${name}: ${message}`);
  });
}

/** What came out, and what to do next. */
function pageOn(path: string, ledger: string): string {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  const items = lines.map(line => JSON.parse(line) as Item);
  const decided = (decision: string): number =>
    items.filter(item => valueAt(item, '/decision/output/approval_decision') === decision).length;
  const rungs = (rung: string): number => items.filter(item => rungOf(item) === rung).length;
  const told = items.find(item => rungOf(item) === 'repaired') ?? items[0];
  return `${path} has a line for each application: ${decided('approve')} approved, ${decided('deny')} denied.
${rungs('clean')} are as the model wrote them, of ${rungs('repaired')} fw mended the syntax, ${rungs('failed')} failed.

Look:
${commandsIn([
  [`fw explain ${told?.id} ${path}`, 'what was asked and answered, and each repair'],
  [`fw view ${path} --ledger ${ledger}`, 'all rows in a browser: filter, read, judge'],
  [`fw verify ${path}`, 'is everything there, and sound?'],
  [`fw ledger cost --ledger ${ledger}`, 'tokens, tries and seconds'],
  ['fw demo', 'again: it asks nothing, since every answer is on record'],
])}

Your own rows:
${commandsIn([['fw init desk --from YOUR.csv', 'makes a folder that is ready to run']])}`;
}

const commandsIn = (rows: readonly string[][]): string =>
  aligned(
    rows.map(([first = '', ...more]) => [`  ${first}`, ...more]),
    [],
  ).join('\n');

function shortest(path: string): string {
  const near = relative(process.cwd(), path);
  return near.length < path.length ? near : path;
}
