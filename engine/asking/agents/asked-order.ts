/** Who is asked, in which order, in words: said before the first call, since a critic who answers first judges nothing. */
import type { Item } from '../../core/item/item.ts';
import { arrangementOf } from './arrangement.ts';
import type { Agents } from './load-agents.ts';

/** `a, b, then final`: those of `ordering`, and who decides. */
export function orderWords(ordering: readonly string[], agents: Agents, decides: boolean): string {
  const last = decides && agents.synthesis ? [agents.synthesis.key] : [];
  return [...ordering, ...last].join(', ');
}

/** Agents of the folder that this ordering leaves out; nothing where it leaves out none. */
export function leftOutWords(ordering: readonly string[], { agents }: Agents): string {
  const others = agents.map(({ key }) => key).filter(key => !ordering.includes(key));
  return others.length === 0 ? '' : `; not asked: ${others.join(', ')}`;
}

/** Told of each item before it is asked; says once what nobody has said before: an order of its own, or that nobody set one. */
export function orderTeller(
  standard: readonly string[],
  agents: Agents,
  warn: (message: string) => void,
): (item: Item, ordering: readonly string[]) => void {
  let isTold = false;
  return (item, ordering) => {
    if (isTold) return;
    if (item.ordering !== undefined) {
      if (ordering.join() === standard.join()) return;
      isTold = true;
      return warn(`the items say who answers after whom; the first: ${ordering.join(', ')}`);
    }
    const isSet = agents.orderings.has('default') || standard.length < 2;
    if (isSet || arrangementOf(item).topology !== 'sequential') return;
    isTold = true;
    const other = standard.map((_, at) => standard[(at + 1) % standard.length]).join(', ');
    warn(
      `the agents answer in the order of their file names: ${standard.join(', ')}; ` +
        `to set another one, write it into ${agents.folder}/orderings.yaml, such as default: [[${other}]]`,
    );
  };
}
