/**
 * The names that clients use: `models:` of the config makes an alias of a served model, or shares it out between several
 * (an A/B test). Who says `user` always gets the same one; otherwise the request itself decides.
 */
import { hash } from 'node:crypto';
import { usageError } from '../../item/failure.ts';

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
  /** `who`: the `user` of the request, or its text */
  choose(name: string, who: string): Choice;
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
    choose(name, who) {
      const arms = shares.get(name);
      if (arms === undefined) return { model: name, arm: undefined };
      const [only] = arms;
      if (arms.length === 1 && only) return { model: only.model, arm: undefined };
      const total = arms.reduce((sum, { weight }) => sum + weight, 0);
      // 52 bits of SHA-256, over the alias too: two tests are independent of each other
      const digits = hash('sha256', `${name}\n${who}`, 'hex').slice(0, DIGITS);
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
