/** Tests run what users run: compiled output, made once before the first test. */
import { execFileSync } from 'node:child_process';

export function setup(): void {
  execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
}
