/**
 * The names that clients use: `models:` of the config makes an alias of a served model, or shares it out between several
 * (an A/B test). Who says `user` always gets the same one; otherwise the request itself decides.
 */
import { hash } from 'node:crypto';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import type { YamlFile } from '../../../engine/core/config/yaml.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import { counted } from '../../../engine/core/item/wording.ts';

/** `models:` as schemas/serve.schema.json has it. */
export type Models = Readonly<Record<string, string | readonly { model: string; weight?: number }[]>>;

export interface Choice {
  model: string;
  /** which of several it became; undefined where there is no choice */
  arm: string | undefined;
}

export interface Standing {
  /** may be asked now */
  isUp(model: string): boolean;
  /** a server has it, which may be away */
  isKnown(model: string): boolean;
}

const DIGITS = 13;

const armsOf = (to: Models[string]): { model: string; weight: number }[] =>
  typeof to === 'string'
    ? [{ model: to, weight: 1 }]
    : to.map(({ model, weight = 1 }) => ({ model, weight }));

/** Exit 65, with the place in the file, where the weights of an alias come to nothing or it stands for another alias. */
export function checkModels(models: Models, { complain }: Pick<YamlFile, 'complain'>): void {
  for (const [alias, to] of Object.entries(models)) {
    const arms = armsOf(to);
    const at = ['models', alias];
    if (arms.every(({ weight }) => weight === 0))
      throw complain(at, `${at.join('.')}: expected a weight above 0 for one of the models, found none`);
    for (const [index, { model }] of arms.entries()) {
      // of its own name, servers may have a model
      if (model === alias || !Object.hasOwn(models, model)) continue;
      throw complain(
        typeof to === 'string' ? at : [...at, index, 'model'],
        `${at.join('.')}: expected a model that servers have, found '${model}', which is an alias itself: ` +
          'write the model that it stands for',
      );
    }
  }
}

export function namesOf(models: Models) {
  const shares = new Map(Object.entries(models).map(([alias, to]) => [alias, armsOf(to)]));
  return {
    /** the aliases, in the order of the config */
    aliases: [...shares.keys()],
    isAlias: (name: string): boolean => shares.has(name),
    /** the models that a name may become; itself where it is no alias */
    modelsOf: (name: string): readonly string[] => shares.get(name)?.map(({ model }) => model) ?? [name],
    /** `who`: gives the `user` of the request, or its text, where there is a choice. The share of a model that is away goes to the others of its test. */
    choose(name: string, who: () => string, { isUp, isKnown }: Standing): Choice {
      const all = shares.get(name);
      if (all === undefined) return { model: name, arm: undefined };
      const [only] = all;
      if (all.length === 1 && only) return { model: only.model, arm: undefined };
      const meant = all.filter(({ weight }) => weight > 0);
      // one that is away may come back in time; one that no server was ever seen to have will not
      const [arms = meant] = [isUp, isKnown]
        .map(is => meant.filter(({ model }) => is(model)))
        .filter(({ length }) => length > 0);
      const total = arms.reduce((sum, { weight }) => sum + weight, 0);
      // 52 bits of SHA-256, over the alias too: two tests are independent of each other
      const digits = hash('sha256', `${name}\n${who()}`, 'hex').slice(0, DIGITS);
      let left = (Number.parseInt(digits, 16) / 16 ** DIGITS) * total;
      const arm = arms.find(({ weight }) => {
        left -= weight;
        return left < 0;
      });
      const { model } = arm ?? (arms.at(-1) as { model: string });
      return { model, arm: model };
    },
  };
}

export type Names = ReturnType<typeof namesOf>;

/** What is made of a setting, and made anew only where that has changed. */
export function following<From, Made>(from: () => From, make: (from: From) => Made): () => Made {
  let last = from();
  let made = make(last);
  return () => {
    const now = from();
    if (now !== last) {
      last = now;
      made = make(now);
    }
    return made;
  };
}

/** ms. A server that is started again needs minutes. */
const LONG = 10 * 60_000;
/** ms between two looks at whether models are known, and in which a server may say its own that was named just now */
const LOOK = 1_000;
const SOON = 10_000;

interface Watched {
  pool: Pick<EndpointPool, 'stats'>;
  workers: {
    takesNew: boolean;
    desk: { stats(): { here: readonly { models: readonly string[] }[] } };
  } | null;
  closing: AbortSignal;
  now(): number;
  say: Say;
}

/**
 * Tells the operator of a model that an alias stands for and nobody serves, since its name may be mistyped: once models are
 * known after the aliases were read, and of a share that others have had for long.
 */
export class Unserved {
  readonly #names: () => Names;
  readonly #parts: Watched;
  /** since when each was seen to be served by nobody; only models of the config get here */
  readonly #since = new Map<string, number>();
  readonly #told = new Set<string>();
  /** the aliases that were read last, since when, and whether they were looked at */
  #read: { names: Names; at: number; isLookedAt: boolean } | null = null;

  constructor(names: () => Names, parts: Watched) {
    this.#names = names;
    this.#parts = parts;
    const timer = setInterval(() => this.#look(performance.now()), LOOK).unref();
    parts.closing.addEventListener('abort', () => clearInterval(timer));
  }

  /** What was seen of a model just now; returns it. */
  note(model: string, isUp: boolean): boolean {
    const { now } = this.#parts;
    const from = this.#since.get(model) ?? now();
    if (isUp) {
      this.#since.delete(model);
      this.#told.delete(model);
      return true;
    }
    this.#since.set(model, from);
    if (now() - from < LONG || this.#told.has(model)) return false;
    this.#told.add(model);
    const others = `other models get its share of ${this.#aliasesOf(model)}`;
    this.#say(model, `no server has had ${JSON.stringify(model)} for ${LONG / 60_000} minutes; ${others}`);
    return false;
  }

  /** Once for the aliases as they are. */
  #look(time: number): void {
    const names = this.#names();
    if (this.#read?.names !== names) this.#read = { names, at: time, isLookedAt: false };
    if (this.#read.isLookedAt) return;
    const known = servedBy(this.#parts);
    if (known === null || (known.away > 0 && time - this.#read.at < SOON)) return;
    this.#read.isLookedAt = true;
    const { models, away } = known;
    const hint = away === 0 ? '' : ` (${counted(away, 'endpoint')} cannot be asked now, and may have it)`;
    for (const model of new Set(names.aliases.flatMap(names.modelsOf)))
      if (!models.has(model)) {
        const stands = `which ${this.#aliasesOf(model)} stands for`;
        this.#say(model, `no server has ${JSON.stringify(model)}, ${stands}${hint}`);
      }
  }

  #aliasesOf(model: string): string {
    const { aliases, modelsOf } = this.#names();
    const meant = aliases.filter(alias => modelsOf(alias).includes(model));
    return meant.map(alias => JSON.stringify(alias)).join(', ');
  }

  #say(model: string, words: string): void {
    this.#parts.say(`models: ${words}; start a server that has it, or correct the name`, {
      ...{ event: 'model-unserved', level: 'warn', model },
    });
  }
}

/** Models of all servers and workers, and how many servers are there of which nobody knows theirs; null where nobody is there. */
function servedBy({ pool, workers }: Watched): { models: ReadonlySet<string>; away: number } | null {
  const { endpoints } = pool.stats();
  const here = workers?.desk.stats().here ?? [];
  const isToCome = workers?.takesNew === true && here.length === 0;
  if (isToCome || endpoints.length + here.length === 0) return null;
  const away = endpoints.filter(({ models }) => models.length === 0).length;
  return { models: new Set([...endpoints, ...here].flatMap(({ models }) => models)), away };
}
