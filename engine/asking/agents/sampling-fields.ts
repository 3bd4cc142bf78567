/** Which fields of a request an agent file may set, beside those that its schema lists under `sampling`. */
export interface Sampling {
  temperature: number;
  /** one of these two is there */
  max_tokens?: number;
  max_completion_tokens?: number;
  [field: string]: unknown;
}

/** What fw makes itself, and why nobody else may. */
const OWNED: { readonly [field: string]: string } = {
  messages: 'fw makes them of the persona, the prompt and the answers of earlier agents',
  prompt: 'fw asks for chat completions; a prompt is a column or a template of fw ingest',
  model: 'the key `model` of the agent file names another model',
  stream: 'fw reads whole answers',
  stream_options: 'fw reads whole answers',
  n: 'fw reads one answer of a call; fw ingest --samples makes an item of each sample',
  seed: 'fw gives each call a seed of its own, made of --seed',
  request_id: 'each try has an id of its own',
  tools: 'fw reads text, and no calls of tools; fw request sends such bodies as they are',
  tool_choice: 'fw reads text, and no calls of tools; fw request sends such bodies as they are',
};

const IN_SAMPLING: readonly string[] = ['temperature', 'max_tokens', 'max_completion_tokens'];

/** Why a field may not stand in `extra`; undefined where it may. */
export function notForExtra(field: string, sampling: Sampling): string | undefined {
  if (Object.hasOwn(OWNED, field))
    return `expected a field that fw leaves to you, found one that it owns: ${OWNED[field]}`;
  if (IN_SAMPLING.includes(field)) return 'expected it under sampling, found it here';
  return Object.hasOwn(sampling, field) ? 'expected it once, found it under sampling too' : undefined;
}

/** What a person has to change where answers are cut off. */
export function limitWords(sampling: Sampling): string {
  const field = sampling.max_tokens === undefined ? 'max_completion_tokens' : 'max_tokens';
  return `its ${field} is ${mostTokens(sampling)}`;
}

/** The limit of tokens of an answer. */
export function mostTokens({ max_tokens, max_completion_tokens }: Sampling): number {
  return max_tokens ?? (max_completion_tokens as number);
}
