/** For tests: what stands in the files of a ledger, and a small folder of agents. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { roomFor, writeSealed } from '../../engine/asking/ledger/ledger-format.ts';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';

export type Line = Record<string, unknown>;

/** The bytes of all files, as text. */
export function textOf(ledger: string): string {
  return filesOf(ledger)
    .map(path => readFileSync(path, 'utf8'))
    .join('');
}

export function ndjson(text: string): Line[] {
  return text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Line);
}

export const linesOf = (ledger: string): Line[] => ndjson(textOf(ledger));

/** A line with a checksum that fits, whatever it says and whether it had one or not. */
export function sealed(line: string): string {
  const open = line.replace(/,"crc":"[^"]*"\}$|\}$/, '');
  const bytes = Buffer.alloc(roomFor(open));
  return bytes.toString('utf8', 0, writeSealed(open, bytes, 0) - 1);
}

export const callsOf = (ledger: string): Line[] =>
  linesOf(ledger).filter(line => 'key' in line && 'outcome' in line);

/** Two agents who answer `{"says": …}`, one after the other. */
export function makeAgents(folder: string): string {
  const at = join(folder, 'agents');
  mkdirSync(at);
  for (const key of ['first', 'second']) {
    const schema = '{ type: object, required: [says], properties: { says: { type: string, minLength: 1 } } }';
    const sampling = '{ temperature: 0.2, max_tokens: 100 }';
    writeFileSync(
      join(at, `${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: The ${key}\nrole: agent\npersona: You are the ${key}.\nschema: ${schema}\nsampling: ${sampling}\n`,
    );
  }
  return at;
}
