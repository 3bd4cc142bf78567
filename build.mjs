// Makes dist/: a split bundle, since one file starts twice as slowly, and our own schemas as code.
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

rmSync('dist', { recursive: true, force: true });
const common = { bundle: true, platform: 'node', target: 'node20', logLevel: 'warning' };

const maker = 'dist/validators/maker.mjs';
await build({
  ...common,
  entryPoints: ['schemas/validators.ts'],
  format: 'esm',
  packages: 'external',
  outfile: maker,
});
const { validators } = await import(pathToFileURL(maker).href);
rmSync(maker);
for (const [name, code] of validators('schemas')) {
  const stdin = { contents: code, resolveDir: '.', sourcefile: name };
  await build({ ...common, stdin, format: 'cjs', outfile: `dist/validators/${name}.cjs` });
}

/** cli-progress, which draws what servers are called, keeps its own. */
function ownWidth({ importer }) {
  return /\/(yargs|cliui|wrap-ansi)\//.test(importer) ? { path: resolve('bin/width.ts') } : undefined;
}

await build({
  ...common,
  entryPoints: ['bin/fw.ts', 'bin/worker.ts', 'fixtures/applications.ts'],
  splitting: true,
  plugins: [
    { name: 'width', setup: ({ onResolve }) => void onResolve({ filter: /^string-width$/ }, ownWidth) },
  ],
  format: 'esm',
  mainFields: ['module', 'main'],
  outdir: 'dist',
  outbase: '.',
  chunkNames: 'chunks/[name]-[hash]',
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
});
