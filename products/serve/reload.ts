/**
 * What changes a server while it runs: endpoints that are found, and its settings, which are read again by SIGHUP and when
 * their files change. They are read and checked whole; where something is wrong nothing changes. What cannot change while it
 * runs is said by its name.
 */
import { systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import { readSmallFile } from '../../engine/core/config/yaml.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { createDiscovery } from './discovery/discover.ts';
import { changeInWords, type EndpointList } from './endpoint-list.ts';
import { differences } from './reload-words.ts';
import type { Settings, Told } from './serve-config.ts';
import type { Parts } from './server-context.ts';
import { watchFiles } from './watch-files.ts';
import type { Webhooks } from './webhooks.ts';

/** Where it is told that. */
export interface Sources {
  /** --config, --pool */
  files: readonly string[];
  /** Reads all of it. Throws Fatal with file and line where something is wrong. */
  read(): Promise<Told>;
}

export interface ReloadOptions {
  sources: Sources;
  first: Told;
  /** what the parts of the server read: it is changed in its place */
  settings: Settings;
  endpoints: Pick<EndpointList, 'setNamed'>;
  webhooks: Pick<Webhooks, 'secretsOf' | 'follow'>;
  /** told after a change */
  onChange(): void;
  say: Say;
}

export function createReload({
  sources,
  first,
  settings,
  endpoints,
  webhooks,
  onChange,
  say,
}: ReloadOptions) {
  let running = first;
  let texts = textsOf(sources.files);
  let complaint = '';
  let isGood = true;

  async function again(by: string | null): Promise<void> {
    const now = textsOf(sources.files);
    if (by === null && now === texts) return; // touched, and the same
    texts = now;
    let told: Told;
    let secrets: ReturnType<Webhooks['secretsOf']>;
    try {
      told = await sources.read();
      secrets = webhooks.secretsOf(told.settings.webhooks);
    } catch (error) {
      const [why = ''] = (error as Error).message.split('\n', 1);
      isGood = false;
      if (by === null && why === complaint) return;
      complaint = why;
      const words = `${by ?? 'a changed file'}: nothing is changed, the settings of before go on: ${why}`;
      return say(words, { event: 'reload-failed', level: 'error' });
    }
    const { changed, later } = differences(running, told);
    webhooks.follow(told.settings.webhooks, secrets);
    Object.assign(settings, fixedFrom(settings, told.settings));
    const moved = endpoints.setNamed(told.pool.endpoints, settings.gateway).map(changeInWords);
    const wasGood = isGood;
    isGood = true;
    complaint = '';
    // what could not be changed is said until it is as it runs
    running = {
      ...told,
      ...{ data: running.data, log: running.log, pool: { ...running.pool, endpoints: [] } },
    };
    running.settings = { ...settings };
    onChange();
    const words = [...moved, ...changed];
    const fixed = later.length === 0 ? [] : [`only a restart changes ${later.join(', ')}`];
    if (words.length + fixed.length === 0 && by === null && wasGood) return;
    const none = wasGood ? 'nothing has changed' : 'the files are right again, and as before';
    say(`${by ?? 'a changed file'}: ${[...(words.length === 0 ? [none] : words), ...fixed].join('; ')}`, {
      event: 'reload',
    });
  }

  let turn: Promise<void> = Promise.resolve();
  return {
    /** Reads all again, one after the other. `by`: who wants it, and is answered in any case; null where a file changed. */
    again(by: string | null): Promise<void> {
      turn = turn.then(() => again(by)).catch(error => say(`reload: ${(error as Error).stack}`));
      return turn;
    },
    /** whether the files, when they were read last, were right */
    isGood: (): boolean => isGood,
  };
}

export type Reload = ReturnType<typeof createReload>;

/** `told`: what it began with; absent where nothing is read again. */
export function openChanges(told: { first: Told; sources: Sources } | undefined, parts: Parts) {
  const { settings, endpoints, webhooks, metrics, say } = parts;
  if (told === undefined) return { reload: null, stop() {} };
  const discovery = createDiscovery({
    ...{ clock: systemClock, env: process.env, say },
    found: (name, found) => endpoints.setFound(name, found),
  });
  discovery.set(settings.discover);
  if (told.sources.files.length === 0) return { reload: null, stop: discovery.stop };
  const { first, sources } = told;
  const reload = createReload({
    ...{ sources, first, settings, endpoints, webhooks, say },
    onChange: () => discovery.set(settings.discover),
  });
  metrics.measure(
    { fw_config_ok: ['Whether the config and pool files, when they were last read, were right: 1 or 0.'] },
    () => ({ fw_config_ok: reload.isGood() ? 1 : 0 }),
  );
  const watch = watchFiles(sources.files, { clock: systemClock, onChange: () => void reload.again(null) });
  return {
    reload: (by: string) => reload.again(by),
    stop(): void {
      watch.stop();
      discovery.stop();
    },
  };
}

/** With what cannot change while the server runs as it is. */
function fixedFrom(now: Settings, next: Settings): Settings {
  const { host, port, queue, limits, diskReserve, gateway } = now;
  const { body, uploads } = limits;
  return {
    ...{ ...next, host, port, queue, diskReserve, limits: { ...next.limits, body, uploads } },
    gateway: { ...next.gateway, isRecordRequired: gateway.isRecordRequired },
  };
}

/** What cannot be read is a text, too. A pipe in the place of a file is not opened: the server would wait for its writer. */
function textsOf(files: readonly string[]): string {
  return JSON.stringify(
    files.map(path => {
      try {
        return readSmallFile(path, 'a YAML file');
      } catch (error) {
        return { wrong: (error as Error).message };
      }
    }),
  );
}
