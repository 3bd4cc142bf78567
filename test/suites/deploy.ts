/**
 * deploy/ under what others publish: the Kubernetes manifests under the API's schemas and KEDA's (kubernetes-models and
 * @kubernetes-models/keda from npm, whose validators are made of Kubernetes' own JSON schemas and of KEDA's types, and whose
 * types find a key that no schema has), the dashboard under Grafana's types, the scripts under Debian's shellcheck, and
 * the alerts, the expressions of the dashboard and the query of the autoscaler under Debian's promtool, by test/deploy.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { conclude, fromDebian, fromNpm, temporary, type Verdict } from './suite.ts';

const models = fromNpm('kubernetes-models@4.5.1');
const keda = fromNpm('@kubernetes-models/keda@2.0.0');
const grafana = fromNpm('@grafana/schema@13.2.3');

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  spec: object;
}

const manifests: (Manifest & { file: string })[] = readdirSync('deploy/kubernetes').flatMap(file =>
  parseAllDocuments(readFileSync(join('deploy/kubernetes', file), 'utf8')).map(document => ({
    ...document.toJS(),
    file,
  })),
);
const isKeda = ({ apiVersion }: Pick<Manifest, 'apiVersion'>): boolean => apiVersion.startsWith('keda.sh/');

/** What the schema says against a manifest; null where nothing. */
async function refusal({ apiVersion, kind, ...rest }: Manifest): Promise<string | null> {
  const file = isKeda({ apiVersion })
    ? join(keda, apiVersion, `${kind}.js`)
    : join(models, apiVersion, `${kind}.mjs`);
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
  for (const { file, ...manifest } of manifests) {
    const { kind, metadata } = manifest;
    const what = `${file}: ${kind} ${metadata.name}`;
    verdicts.push({ name: `${what} fits its schema`, problem: await refusal(manifest) });
    verdicts.push({ name: `${what} has no key beside it`, problem: misfitOf(manifest) });
  }
  // and the checks can fail: a text for a number, and a key that is misspelt
  for (const [kind, number, key] of [
    ['Job', 'completions', 'completion'],
    ['ScaledObject', 'pollingInterval', 'pollInterval'],
  ] as const) {
    const { file: _, ...one } = manifests.find(each => each.kind === kind) as Manifest & { file: string };
    const wrong = { ...one, spec: { ...one.spec, [number]: '4' } };
    const unknown = { ...one, spec: { ...one.spec, [key]: 4 } };
    verdicts.push({
      name: `${kind}: a text for a number is found`,
      problem: (await refusal(wrong))?.includes(number) ? null : 'it was not',
    });
    verdicts.push({
      name: `${kind}: a key that is misspelt is found`,
      problem: misfitOf(unknown)?.includes(`"${key}"`) ? null : 'it was not',
    });
  }
  return verdicts;
}

function misfitOf(manifest: Manifest): string | null {
  const [folder, name] = isKeda(manifest) ? [keda, '@kubernetes-models/keda'] : [models, 'kubernetes-models'];
  return misfit(folder, `${name}/${manifest.apiVersion}/${manifest.kind}`, `I${manifest.kind}`, manifest);
}

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
  const tests = ['watching', 'scaling'].map(name => `test/deploy/${name}.test.ts`);
  const ran = spawnSync('npx', ['vitest', 'run', ...tests, '-t', 'promtool'], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
  });
  // without promtool they would all have been skipped
  const passed = Number(/Tests +(\d+) passed/.exec(stripVTControlCharacters(ran.stdout))?.[1] ?? 0);
  const isDone = ran.status === 0 && passed >= 10;
  return [
    { name: 'promtool takes the rules and the query', problem: isDone ? null : ran.stdout.slice(-2_000) },
  ];
}

/** Those that are handed out, and those by hand that run them. */
function scripts(): Verdict[] {
  const shellcheck = join(fromDebian('shellcheck'), 'usr', 'bin', 'shellcheck');
  return [
    ...readdirSync('deploy/slurm').map(name => join('deploy/slurm', name)),
    'test/by-hand/slurm.sh',
  ].map(file => {
    const ran = spawnSync(shellcheck, [file], { encoding: 'utf8' });
    return {
      name: `${file} under shellcheck`,
      problem: ran.status === 0 ? null : ran.stdout.slice(0, 2_000),
    };
  });
}

conclude('deploy', [...(await kubernetes()), ...dashboards(), ...rules(), ...scripts()], {});
