/** What changes a server while it runs: its files, which are read again, and endpoints that are found. */
import { systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import { createDiscovery } from './discovery/discover.ts';
import { createReload, type Sources } from './reload.ts';
import type { Told } from './serve-config.ts';
import type { Parts } from './server-context.ts';
import { watchFiles } from './watch-files.ts';

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
