// Makes dist/: fw and the library as a split bundle, since one file starts twice as slowly; our own schemas as code; the
// licences of what is bundled. By rolldown, which puts what few share into fewer files than esbuild does.
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'rolldown';

rmSync('dist', { recursive: true, force: true });
const common = {
  platform: 'node',
  transform: { target: 'node20' },
  resolve: { mainFields: ['module', 'main'] },
};

/** A module of the sources, for the build itself. */
async function module(input) {
  const file = 'dist/validators/maker.mjs';
  await build({ ...common, input, external: /^[^./]/, output: { file, format: 'esm' } });
  const made = await import(`${pathToFileURL(resolve(file)).href}?${input}`);
  rmSync(file);
  return made;
}

const { validators } = await module('schemas/validators.ts');
const made = [];
for (const [name, code] of validators('schemas')) {
  made.push(await alone(`dist/validators/${name}.cjs`, code));
}

/** A CommonJS file of `code`, with all that it requires. */
function alone(file, code) {
  const given = resolve('given.cjs'); // nowhere but here
  const load = id => (id === given ? code : undefined);
  const plugins = [{ name: 'given', resolveId: id => (id === given ? id : undefined), load }];
  return build({ ...common, input: given, plugins, output: { file, format: 'cjs' } });
}

/** Bundled apart, as code that is loaded when somebody asks for it (engine/core/config/package.ts, `library`). */
const libraries = {
  ajv: `const { _, str, Ajv } = require('ajv');
    module.exports = {
      _, str, Ajv,
      get Ajv2019() { return require('ajv/dist/2019.js').Ajv2019; },
      get Ajv2020() { return require('ajv/dist/2020.js').Ajv2020; },
      get formats() { return require('ajv-formats'); },
    };`,
  yaml: `module.exports = require('yaml');`,
};
for (const [name, code] of Object.entries(libraries)) made.push(await alone(`dist/chunks/${name}.cjs`, code));

/** cli-progress, which draws what servers are called, keeps its own. */
function ownWidth(id, importer = '') {
  if (id !== 'string-width' || !/\/(yargs|cliui|wrap-ansi)\//.test(importer)) return undefined;
  return resolve('bin/width.ts');
}

/**
 * Of undici the client and its connector alone: its index also loads fetch, caches and mocks, and a run would take a
 * quarter longer to start. Where another version has other files, the build fails here and not a run.
 */
const UNDICI = `
  export { default as Client } from 'undici/lib/dispatcher/client.js';
  export { default as buildConnector } from 'undici/lib/core/connect.js';
  export { default as util } from 'undici/lib/core/util.js';`;

/** Of BullMQ and msgpackr the same: their indexes also load PostgreSQL, flows, streams and native code. */
const BULLMQ = `
  export { Queue } from 'bullmq/dist/esm/classes/queue.js';
  export { Worker } from 'bullmq/dist/esm/classes/worker.js';
  export { createRedisBackend } from 'bullmq/dist/esm/utils/create-backend.js';`;
/** A scheduler of jobs is never made: a calendar and all time zones are for it alone. */
const CRON = 'export const CronExpressionParser = undefined;';
/** Of these packages no more than what is written here. */
const parts = {
  undici: UNDICI,
  bullmq: BULLMQ,
  msgpackr: `export { Packr } from 'msgpackr/pack';`,
  'cron-parser': CRON,
};
const lean = {
  name: 'lean',
  resolveId: id => (id in parts ? resolve(`${id}-part.mjs`) : undefined), // nowhere but here
  load: id => Object.entries(parts).find(([name]) => id === resolve(`${name}-part.mjs`))?.[1],
};

/** Small modules that would be files of a kilobyte: a file more costs a start more than what it does not need of these. */
const TOGETHER = [
  {
    // what every verb needs that reads lines and writes lines, in one file: it imports none of the others
    name: 'text',
    test: /\/core\/(item|json|files\/(?!side-file))|\/flow\/(?!provenance)|\/config\/package\.ts|\/(stages|bin\/commands)\/index\.ts|\/bin\/(dispatch|flags|habits|stray-input)\.ts|\/kit\/execute\.ts|\/running\/(asking|open-pool|run|stage-options|stopping|to-files|without-asking)\.ts|\/audit\/expected-ids\.ts|\/stages\/select\.ts|\/endpoints\/pool-clock\.ts|\/node_modules\/(highland|util-deprecate)\//,
  },
  { name: 'asking', test: /\/stages\/(agent-step|chain|request|synthesize-decision)\.ts|\/asking\/agents\// },
  { name: 'mending', test: /\/stages\/(fix-escapes|null-fix|validate)\.ts|\/audit\/recheck\.ts/ },
  { name: 'begin', test: /\/bin\/(commands\/(completion|demo|init)|starters)\.ts|\/tables\/look\.ts/ },
  // what is loaded where an address is read or written
  { name: 'remote', test: /\/core\/remote\/|\/running\/to-store\.ts|\/node_modules\/aws4fetch\// },
  { name: 'aside', test: /\/(files\/put-aside|tables\/selection)\.ts/ },
  { name: 'rows', test: /\/tables\/(row-check|template)\.ts/ },
  {
    name: 'pool',
    test: /\/asking\/(pool\/[a-z-]+|endpoints\/(?!pool-clock|gpu|exchange|wire|sse)[a-z-]+)\.ts/,
  },
  {
    name: 'keys',
    test: /\/serve\/(serve-config|api-keys|key-changes|discovery\/entries|gateway\/served-models|keep\/keep-settings|log\/(log|line-sink)|traces\/otlp-settings)\.ts|\/workers\/queue-options\.ts|\/bin\/commands\/batch\.ts|\/(serve\/(keys|serve)|workers\/work)-command\.ts/,
  },
  {
    name: 'verify',
    test: /\/stages\/verify\.ts|\/audit\/(calls|labels|tally|verdict)\.ts|\/legacy\/(answer-schemas|legacy-result|strict|strict-items)\.ts/,
  },
  { name: 'answers', test: /\/engine\/(answers\/|core\/config\/)/ },
  {
    name: 'explain',
    test: /\/engine\/audit\/(advice|history|search|value-provenance)\.ts|\/bin\/commands\/explain\.ts/,
  },
  { name: 'legacy', test: /\/stages\/(legacy|legacy-convert)\.ts|\/files\/document-output\.ts/ },
  {
    name: 'read',
    test: /\/report\/(answer-counts|collect|gather|observe|outcome-texts|read-lines|read-out|compare-runs|compare-command)\.ts/,
  },
  { name: 'joined', test: /\/(report\/(source|values)|view\/rows\/source-rows)\.ts/ },
  {
    // what is loaded where a file is one
    name: 'parquet',
    test: /\/tables\/(parquet\/[a-z-]+|parquet-rows)\.ts|\/node_modules\/(fzstd|hysnappy)\//,
  },
  { name: 'facts', test: /\/watch\/(crowd|diagnosis|run-facts|recent|servers|run-words)\.ts/ },
  { name: 'bench', test: /\/measure\/bench\// },
  { name: 'models', test: /\/measure\/models\// },
  {
    name: 'figures',
    test: /\/products\/kit\/(agreement|arrivals|chart|goal|html|kappa|page|permute|statistics)\.ts/,
  },
  {
    name: 'presets',
    test: /\/schemas\/preset\.schema|\/products\/simulator\/(facts\/|cards|kv-room|model-facts|preset-options|presets|step-|steptime|weight-storage)/,
  },
  { name: 'records', test: /\/products\/records\// },
  { name: 'worker', test: /\/workers\/worker\// },
  {
    name: 'queue',
    test: /\/workers\/(part-queue|redis|taker)\.ts|\/node_modules\/(bullmq|@?ioredis|msgpackr|denque|debug|ms|cluster-key-slot|redis-errors|standard-as-callback|node-abort-controller|tslib)\/|\/(bullmq|cron-parser|msgpackr)-part\.mjs/,
  },
  {
    name: 'holding',
    test: /\/ledger\/(key-index|ledger|lock|lock-waiting|record|request-texts|writer)\.ts/,
  },
];

const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const entries = [
  'bin/fw.ts',
  'index.ts',
  'answers.ts',
  'simulator.ts',
  'fixtures/applications.ts',
  'products/serve/beating.ts', // a thread begins with a file of its own
  'products/view/rows/indexer.ts',
];
made.push(
  await build({
    ...common,
    input: Object.fromEntries(entries.map(path => [path.replace(/\.ts$/, ''), path])),
    transform: { ...common.transform, define: { FW_VERSION: JSON.stringify(version) } },
    preserveEntrySignatures: 'allow-extension', // as rolldown wants it for the groups
    checks: { ineffectiveDynamicImport: false }, // the library has all stages at once; fw loads one by its name
    plugins: [lean, { name: 'width', resolveId: ownWidth }],
    output: {
      dir: 'dist',
      format: 'esm',
      entryFileNames: '[name].js',
      chunkFileNames: 'chunks/[name]-[hash].js',
      codeSplitting: { groups: TOGETHER, includeDependenciesRecursively: false },
    },
  }),
);

chmodSync('dist/bin/fw.js', 0o755);
writeFileSync('dist/starters.json', JSON.stringify(starters('pipelines/starters'), null, 1));
writeFileSync(
  'dist/yaml.json',
  JSON.stringify(read('pipelines', await module('engine/core/config/yaml.ts'))),
);
const theme = readFileSync('products/kit/theme.css', 'utf8');
writeFileSync(
  'dist/page.json',
  JSON.stringify(
    {
      'page.css': theme + readFileSync('products/kit/page.css', 'utf8'),
      'serve.css': theme + readFileSync('products/serve/page/page.css', 'utf8'),
      'serve.js': readFileSync('products/serve/page/page.js', 'utf8'),
      'view.css': ['view/page/view.css', 'view/item-page.css'].reduce(
        (all, path) => all + readFileSync(join('products', path), 'utf8'),
        theme,
      ),
      'view.js': readFileSync('products/view/page/view.js', 'utf8'),
    },
    null,
    1,
  ),
);
writeFileSync('dist/LICENSES.txt', licences(made.flatMap(({ output }) => output)));

/** What each bundled package asks to be told with it: its licence file, or the name of its licence. */
function licences(chunks) {
  const modules = chunks.flatMap(chunk => Object.entries(chunk.modules ?? {}));
  const used = modules.filter(([, { renderedLength }]) => renderedLength > 0).map(([id]) => id);
  const folders = used.map(id => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0]);
  const texts = [...new Set(folders.filter(Boolean))].map(folder => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find(name => /^licen[cs]e(\.|$)/i.test(name));
    const text = file ? readFileSync(join(folder, file), 'utf8') : '';
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  });
  return `fw contains parts of these packages.\n\n${[...new Set(texts)].sort().join(`\n${'-'.repeat(80)}\n\n`)}`;
}

/** The YAML files of the package by their paths, with the schema that each names and what it holds. */
function read(folder, { yamlIn }) {
  const paths = readdirSync(folder, { recursive: true }).filter(path => path.endsWith('.yaml'));
  const shipped = paths.filter(path => !/^(starters|loanapp|fairwatch\/topologies)\//.test(path));
  return Object.fromEntries(
    shipped.sort().map(path => {
      const text = readFileSync(join(folder, path), 'utf8');
      const [, schema] =
        /^# yaml-language-server: \$schema=\S*\/([a-z-]+?)(?:-options)?\.schema\.json$/m.exec(text);
      const { value } = yamlIn(text, join('to-be-read', path), schema, { plain: true });
      return [path, { schema, text, value: JSON.stringify(value) }];
    }),
  );
}

/** The folders that `fw init` makes, as one file: {starter: {path: text}}. */
function starters(folder) {
  const textsOf = at =>
    readdirSync(at, { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .sort()
      .map(path => [relative(at, path), readFileSync(path, 'utf8')]);
  const names = readdirSync(folder).sort();
  return Object.fromEntries(names.map(name => [name, Object.fromEntries(textsOf(join(folder, name)))]));
}
