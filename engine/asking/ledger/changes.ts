/** What of a run has changed since the last one on the same ledger: told before anything is asked. */
import type { AsksWith } from '../../core/item/call.ts';

/** A model as the endpoints say it. */
export interface Served {
  model: string;
  /** the weights behind the name, where the server says */
  root?: string;
}

/** In words, each a change that lets calls be asked again; none where nothing that is known has changed. */
export function changedStage(before: AsksWith, now: AsksWith): string[] {
  const changes: string[] = [];
  for (const [agent, facts] of Object.entries(now.agents)) {
    const old = before.agents[agent];
    if (old === undefined) {
      changes.push(`${agent} is new`);
      continue;
    }
    const parts = (['persona', 'schema', 'sampling', 'model'] as const).filter(
      part => old[part] !== facts[part],
    );
    if (parts.length > 0) changes.push(`${agent}: ${parts.join(' and ')} changed`);
  }
  for (const agent of Object.keys(before.agents)) {
    if (now.agents[agent] === undefined) changes.push(`${agent} is gone`);
  }
  for (const [name, value] of Object.entries(now.options)) {
    const old = before.options[name];
    if (old !== value) changes.push(`${name}: ${old ?? 'none'} before, ${value} now`);
  }
  return changes;
}

/** Two names of models where the endpoints serve another one, or another one under the same name; else null. */
export function changedModel(before: Served, now: Served): string | null {
  if (before.model !== now.model) return `the model was ${before.model} and is ${now.model}`;
  if (before.root === undefined || now.root === undefined || before.root === now.root) return null;
  return `the name ${now.model} meant ${before.root} and now means ${now.root}: the answers on record are those of ${before.root}`;
}
