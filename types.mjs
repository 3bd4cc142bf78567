// Makes the types of each entry of the library, in one file each; that of index.ts needs @types/highland, which comes with fw.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const made = 'dist/types';
/** What they say goes to stderr: `npm pack --json` has stdout for itself. */
const run = (name, ...args) =>
  execFileSync(join('node_modules', '.bin', name), args, { stdio: ['ignore', 2, 2] });

rmSync(made, { recursive: true, force: true });
mkdirSync(made, { recursive: true });
try {
  // TypeScript 7 knows our sources; the bundler, which brings an older one, only reads what it made of them
  const project = join(made, 'tsconfig.json');
  const roots = [`${process.cwd()}/node_modules/@types`];
  const options = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    outDir: '.',
    rootDir: '../..',
  };
  const config = {
    extends: '../../tsconfig.json',
    compilerOptions: { ...options, typeRoots: roots, types: ['node', 'highland'] },
    include: ['index.ts', 'answers.ts', 'simulator.ts', 'engine', 'products', 'stages'].map(
      path => `../../${path}`,
    ),
  };
  writeFileSync(project, JSON.stringify(config));
  run('tsc', '--project', project);
  const bundle = ['--export-referenced-types', 'false', '--no-check', '--silent', '--project', project];
  for (const entry of ['index.d.ts', 'answers.d.ts', 'simulator.d.ts'])
    run('dts-bundle-generator', ...bundle, '--out-file', join('dist', entry), join(made, entry));
} finally {
  rmSync(made, { recursive: true, force: true });
}

// A flow is a stream of highland; its types are global, and users may have them too: theirs and ours must be the same
const types = readFileSync('dist/index.d.ts', 'utf8');
writeFileSync('dist/index.d.ts', `/// <reference types="highland" />\n${types}`);
