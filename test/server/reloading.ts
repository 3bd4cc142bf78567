/** A server of this process whose settings are those of a file, read as fw serve does. */
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { onTestFinished } from 'vitest';
import { lastingSettings, openLasting } from '../../engine/running/open-pool.ts';
import { type Server, startServer } from '../../products/serve/serve.ts';
import { settingsOf, type Told } from '../../products/serve/serve-config.ts';
import { folder } from '../fw.ts';

export interface Configured extends Server {
  data: string;
  said: string[];
  /** Writes the file; returns its path. */
  write(text: string): string;
  /** Reads it again, as SIGHUP does; returns what was said of that. */
  again(text: string): Promise<string>;
}

/** `text` is YAML, without listen and data. */
export async function configured(text: string, data = join(folder(), 'data')): Promise<Configured> {
  const path = join(folder(), 'serve.yaml');
  const write = (next: string): string => {
    writeFileSync(path, next);
    return path;
  };
  write(text);
  const flags = { config: path, data, listen: '127.0.0.1:0', grace: '200ms' };
  const values = { wait: '0s', 'max-body': 4 * 1024 * 1024 };
  const said: string[] = [];
  const say = (message: string): void => void said.push(message);
  const read = async (): Promise<Told> => {
    const { pool: file, ...told } = settingsOf(flags, process.env);
    const needsNone = told.settings.discover.length > 0;
    const pool = await lastingSettings(values, { ...(file && { file }), needsNone, warn: say });
    return { ...told, data: resolve(told.data), pool };
  };
  const first = await read();
  const server = await startServer({
    data,
    settings: { ...first.settings },
    told: { first, sources: { files: [path], read } },
    openPool: signal => openLasting(values, { settings: first.pool, reserve: 0, warn: say, signal }),
    say,
    onBroken: error => void said.push(error.message),
  });
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopping ??= server.stop();
    return stopping;
  };
  onTestFinished(stop);
  return {
    ...{ ...server, stop, data, said, write },
    async again(next) {
      write(next);
      await server.reload?.('SIGHUP');
      return said.findLast(line => line.startsWith('SIGHUP')) ?? '';
    },
  };
}
