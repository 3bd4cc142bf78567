/**
 * deploy/ under what others publish: the Kubernetes manifests under the API's schemas (kubernetes-models from npm, whose
 * validators are made of Kubernetes' own JSON schemas, and whose types find a key that no schema has), the dashboard under Grafana's types, and
 * the alerts and the expressions of the dashboard under Debian's promtool, by test/deploy/watching.test.ts.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { conclude, fromDebian, fromNpm, temporary, type Verdict } from './suite.ts';

const models = fromNpm('kubernetes-models@4.5.1');
const grafana = fromNpm('@grafana/schema@13.2.3');

interface Manifest {
  apiVersion: string;
  kind: string;
}

const manifests: Manifest[] = parseAllDocuments(readFileSync('deploy/kubernetes/shards.yaml', 'utf8')).map(
  document => document.toJS(),
);

/** What the schema says against a manifest; null where nothing. */
async function refusal({ apiVersion, kind, ...rest }: Manifest): Promise<string | null> {
  const file = join(models, apiVersion, `${kind}.mjs`);
  const { [kind]: Model } = await import(pathToFileURL(file).href);
  try {
    new Model({ apiVersion, kind, ...rest }).validate();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** What tsc says against `value` as a `type` of `module`, a package in `folder`: of keys too that the type does not have. */
function misfit(folder: string, module: string, type: string, value: unknown): string | null {
  const at = temporary('types');
  symlinkSync(
    folder.slice(0, folder.lastIndexOf('node_modules') + 'node_modules'.length),
    join(at, 'node_modules'),
  );
  writeFileSync(join(at, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(at, 'value.ts'),
    `import type { ${type} as Wanted } from '${module}';\nexport const value: Wanted = ${JSON.stringify(value)};\n`,
  );
  const options =
    '--ignoreConfig --noEmit --strict --skipLibCheck --module preserve --moduleResolution bundler --target es2023'.split(
      ' ',
    );
  const ran = spawnSync(join('node_modules', '.bin', 'tsc'), [...options, join(at, 'value.ts')], {
    encoding: 'utf8',
  });
  return ran.status === 0 ? null : ran.stdout.trim().slice(0, 2_000);
}

async function kubernetes(): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const manifest of manifests) {
    const { kind } = manifest;
    verdicts.push({ name: `${kind} fits its schema`, problem: await refusal(manifest) });
    verdicts.push({ name: `${kind} has no key beside it`, problem: misfitOf(manifest) });
  }
  const [job] = manifests.filter(({ kind }) => kind === 'Job') as (Manifest & { spec: object })[];
  const wrong = { ...job, spec: { ...job?.spec, completions: '4' } } as Manifest;
  const unknown = { ...job, spec: { ...job?.spec, completion: 4 } } as Manifest;
  verdicts.push({
    name: 'a text for a number is found',
    problem: (await refusal(wrong))?.includes('completions') ? null : 'it was not',
  });
  verdicts.push({
    name: 'a key that is misspelt is found',
    problem: misfitOf(unknown)?.includes('"completion"') ? null : 'it was not',
  });
  return verdicts;
}

const misfitOf = (manifest: Manifest): string | null =>
  misfit(models, `kubernetes-models/${manifest.apiVersion}/${manifest.kind}`, `I${manifest.kind}`, manifest);

function dashboards(): Verdict[] {
  const value = JSON.parse(readFileSync('deploy/grafana/fw.json', 'utf8'));
  const wrong = { ...value, editable: 'yes' };
  return [
    { name: 'the dashboard is one', problem: misfit(grafana, '@grafana/schema', 'Dashboard', value) },
    {
      name: 'a text for a boolean is found',
      problem: misfit(grafana, '@grafana/schema', 'Dashboard', wrong)?.includes('boolean')
        ? null
        : 'it was not',
    },
  ];
}

function rules(): Verdict[] {
  const bin = join(fromDebian('prometheus'), 'usr', 'bin');
  const ran = spawnSync('npx', ['vitest', 'run', 'test/deploy/watching.test.ts', '-t', 'promtool'], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
  });
  const isDone = ran.status === 0 && / 3 passed/.test(stripVTControlCharacters(ran.stdout));
  return [{ name: 'promtool takes the rules', problem: isDone ? null : ran.stdout.slice(-2_000) }];
}

conclude('deploy', [...(await kubernetes()), ...dashboards(), ...rules()], {});
