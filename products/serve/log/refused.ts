/** A server whose flags cannot be read has not begun, and its log is read by a program all the same. */
import { readYaml } from '../../../engine/core/config/yaml.ts';
import type { Fatal } from '../../../engine/core/item/failure.ts';
import { openStderr } from './log.ts';

/** Says why as a line of JSON, where the words of the command line, or the file that they name, ask for JSON; else false. */
export async function saidAsJson(label: string, argv: readonly string[], error: Fatal): Promise<boolean> {
  if ((lastOf(argv, 'log') ?? logOf(lastOf(argv, 'config'))) !== 'json') return false;
  const log = openStderr(label, { format: 'json', level: 'error' });
  log.say(error.message, { event: 'ended', level: 'error', exit: error.exit });
  await log.close();
  return true;
}

/** The last value of a flag; what is wrong beside it does not matter here. */
function lastOf(argv: readonly string[], flag: string): string | undefined {
  const at = argv.findLastIndex(word => word === `--${flag}` || word.startsWith(`--${flag}=`));
  if (at < 0) return undefined;
  const word = argv[at] as string;
  return word.includes('=') ? word.slice(flag.length + 3) : argv[at + 1];
}

function logOf(config: string | undefined): unknown {
  if (config === undefined) return undefined;
  try {
    return (readYaml(config, 'serve').value as { log?: unknown } | null)?.log;
  } catch {
    return undefined; // it is the flags that are told of
  }
}
