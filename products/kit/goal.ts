/** Bounds that a request has to keep to count as good, as vllm bench serve takes them. */
import { usageError } from '../../engine/core/item/failure.ts';

/** in ms */
export type Goal = Readonly<Partial<Record<'ttft' | 'tpot' | 'e2el', number>>>;

/** `ttft:500,tpot:50,e2el:5000`, ms each; of vLLM's --goodput the same words. */
export function goalOf(texts: readonly string[] | undefined): Goal | null {
  if (texts === undefined) return null;
  const goal: Record<string, number> = {};
  for (const text of texts.flatMap(each => each.split(/[ ,]/)).filter(Boolean)) {
    const [, name, value] = /^(ttft|tpot|e2el):(\d{1,9}(?:\.\d{1,6})?)$/.exec(text) ?? [];
    if (name === undefined)
      throw usageError(
        `--goodput: expected ttft, tpot or e2el with milliseconds, such as ttft:500,tpot:50,e2el:5000, found '${text}'`,
      );
    if (Object.hasOwn(goal, name)) throw usageError(`--goodput: expected ${name} once, found it twice`);
    goal[name] = Number(value);
  }
  return goal;
}
