/** Tests run what users run: compiled output, made once before the first test (FW_BUILT says that make has done it), and an `fw` for the PATH. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export function setup(): () => void {
  if (!process.env.FW_BUILT) execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
  const cli = fileURLToPath(new URL('../dist/bin/fw.js', import.meta.url));
  const bin = mkdtempSync(join(tmpdir(), 'fw-test-'));
  writeFileSync(join(bin, 'fw'), `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`, { mode: 0o755 });
  process.env.FW_TEST_BIN = bin;
  return () => rmSync(bin, { recursive: true, force: true });
}
