import { broken } from './ndjson-out.ts';

/** Writes a page to stdout; resolves once the system has it. Rejects with Fatal: 141 where the reader went away, 74. */
export function writePage(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(broken(error, 'stdout'));
    process.stdout.once('error', fail);
    process.stdout.write(text, error => {
      if (error) return; // told above
      process.stdout.off('error', fail);
      resolve();
    });
  });
}
