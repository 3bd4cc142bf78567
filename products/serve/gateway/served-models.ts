/**
 * The names that clients use: `models:` of the config makes an alias of a served model, or shares it out between several
 * (an A/B test). Who says `user` always gets the same one; otherwise the request itself decides.
 */
import { hash } from 'node:crypto';
import { usageError } from '../../../engine/core/item/failure.ts';

/** `models:` as schemas/serve.schema.json has it. */
export type Models = Readonly<Record<string, string | readonly { model: string; weight?: number }[]>>;

export interface Choice {
  model: string;
  /** which of several it became; undefined where there is no choice */
  arm: string | undefined;
}

export interface Names {
  /** the aliases, in the order of the config */
  readonly aliases: readonly string[];
  /** the models that a name may become; itself where it is no alias */
  modelsOf(name: string): readonly string[];
  /**
   * `who`: gives the `user` of the request, or its text, where there is a choice. `isUp` says which models may be asked now: the share of one that may
   * not goes to the others of its test.
   */
  choose(name: string, who: () => string, isUp?: (model: string) => boolean): Choice;
}

const DIGITS = 13;

/** Exit 65 where the weights of an alias come to nothing. */
export function namesOf(models: Models): Names {
  const shares = new Map(
    Object.entries(models).map(([alias, to]) => {
      const all = typeof to === 'string' ? [{ model: to }] : to;
      const arms = all.map(({ model, weight = 1 }: { model: string; weight?: number }) => ({
        model,
        weight,
      }));
      if (arms.reduce((sum, { weight }) => sum + weight, 0) > 0) return [alias, arms] as const;
      throw usageError(`models: expected a weight above 0 for one of the models of '${alias}', found none`);
    }),
  );
  return {
    aliases: [...shares.keys()],
    modelsOf: name => shares.get(name)?.map(({ model }) => model) ?? [name],
    choose(name, who, isUp = () => true) {
      const all = shares.get(name);
      if (all === undefined) return { model: name, arm: undefined };
      const [only] = all;
      if (all.length === 1 && only) return { model: only.model, arm: undefined };
      const up = all.filter(({ model, weight }) => weight > 0 && isUp(model));
      const arms = up.length > 0 ? up : all;
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
