/**
 * Servers that are found and not named: `discover:` of the config. Each entry is looked up now and then. A look that fails,
 * or that finds more than there can be, changes nothing. What is found is named by its address, which is all that is asked.
 */
import type { Clock, Ticker } from '../../../engine/asking/endpoints/pool-clock.ts';
import type { EndpointSetting } from '../../../engine/asking/endpoints/settings.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { dnsSource, type Lookup } from './dns.ts';
import { type Discover, MOST, nameOf, type Source, settingsFor } from './entries.ts';
import { kubernetesSource, type World } from './kubernetes.ts';

export interface Worlds {
  lookup?: Lookup;
  kubernetes?: World;
}

function sourceOf({ dns, kubernetes }: Discover, { lookup, kubernetes: world }: Worlds = {}): Source {
  return dns === undefined
    ? kubernetesSource(kubernetes as NonNullable<Discover['kubernetes']>, world)
    : dnsSource(dns, lookup);
}

export interface DiscoveryOptions {
  clock: Clock;
  env: NodeJS.ProcessEnv;
  worlds?: Worlds;
  say: Say;
  /** These are the endpoints of a source from now on; none where it is asked no more. */
  found(name: string, settings: readonly EndpointSetting[]): void;
}

interface Looking {
  entry: string;
  ticker: Ticker;
  isOver: boolean;
}

/** Looks at once, and from then on. `set` says what is looked at in place of what was before. */
export function createDiscovery({ clock, env, worlds, say, found }: DiscoveryOptions) {
  const all = new Map<string, Looking>();

  function end(name: string, looking: Looking): void {
    looking.isOver = true;
    looking.ticker.stop();
    all.delete(name);
  }

  function begin(name: string, one: Discover): void {
    const source = sourceOf(one, worlds);
    /** by URL: looks in a row that did not find it */
    let known = new Map<string, number>();
    let isLooking = false;
    let told = '';
    async function look(): Promise<void> {
      if (isLooking) return;
      isLooking = true;
      try {
        const urls = new Set(await source.look());
        if (looking.isOver) return;
        if (urls.size > MOST) throw new Error(`${urls.size} servers, of at most ${MOST}`);
        known = seen(known, urls, source.misses);
        found(name, settingsFor(one, [...known.keys()].sort(), env));
        if (told !== '')
          say(`${name}: looked up again; ${counted(known.size, 'server')} found`, {
            event: 'discovery',
            from: name,
          });
        told = '';
      } catch (error) {
        const why = (error as Error).message.slice(0, 300);
        if (looking.isOver || why === told) return;
        told = why;
        say(
          `${name}: expected its servers, found ${why}; ${counted(known.size, 'server')} known before stay, and it is looked up again`,
          { event: 'discovery-failed', level: 'warn', from: name },
        );
      } finally {
        isLooking = false;
      }
    }
    const looking: Looking = {
      entry: JSON.stringify(one),
      ticker: clock.every(source.every, () => void look()),
      isOver: false,
    };
    all.set(name, looking);
    void look();
  }

  return {
    set(entries: readonly Discover[]): void {
      const named = new Map(entries.map(one => [nameOf(one), one]));
      for (const [name, looking] of [...all]) {
        const one = named.get(name);
        if (one !== undefined && JSON.stringify(one) === looking.entry) named.delete(name);
        else {
          end(name, looking);
          if (one === undefined) found(name, []);
        }
      }
      for (const [name, one] of named) begin(name, one);
    },
    stop(): void {
      for (const [name, looking] of [...all]) end(name, looking);
    },
  };
}

/** By URL how many looks in a row did not find it; without those that so many did not. */
function seen(known: ReadonlyMap<string, number>, urls: ReadonlySet<string>, misses: number) {
  const now = new Map([...urls].map(url => [url, 0]));
  for (const [url, missed] of known)
    if (!urls.has(url) && missed + 1 < misses && now.size < MOST) now.set(url, missed + 1);
  return now;
}
