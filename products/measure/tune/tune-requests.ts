/** What the servers of a study are asked: made-up prompts, or the user's own requests as fw bench asks them. */
import { type Agents, folderOfAgents, loadAgents } from '../../../engine/asking/agents/load-agents.ts';
import { poolSettings } from '../../../engine/asking/endpoints/settings.ts';
import { createEndpoint, type Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { seeded } from '../../kit/permute.ts';
import { openTarget } from '../bench/bench-servers.ts';
import type { Workload } from '../bench/bench-workload.ts';
import { type OwnLines, readOwnLines } from '../bench/own-requests.ts';
import { modelsOf, WARM_UP_LENGTHS, workloadOf } from '../bench/request-sources.ts';
import type { Lengths } from './rank.ts';
import type { Study } from './tune-file.ts';

export interface Asked {
  /** one that nothing was asked of yet */
  endpoint(): Endpoint;
  /** What is asked of a server that is ready. Fatal where it serves another model, or does not count tokens. */
  workload(): Promise<{ workload: Workload; model: string }>;
  /** lengths before any server was asked; null where only a server can tell them */
  planned(): Lengths[] | null;
}

const MOST_LINE_BYTES = 8 * 1024 * 1024;
/** Reads what is to be asked; opens no connection. Exit 65 where it is nothing to ask. */
export async function readAsked(
  study: Study,
  { signal, warn }: { signal: AbortSignal; warn(message: string): void },
): Promise<Asked> {
  const { load, endpoint, seed } = study;
  const settings = poolSettings(
    { endpoint: [endpoint], ...(study.model && { model: study.model }) },
    process.env,
  );
  const own = load.file === undefined ? null : await readOwnLines([load.file], MOST_LINE_BYTES);
  if (own?.hasMore) warn(`${load.file} has more than ${counted(own.lines.length, 'line')}: using the first`);
  const agents: Agents | undefined = own?.needsAgents
    ? {
        ...loadAgents(folderOfAgents(load.agents, process.cwd())),
        naming: {
          by: load.agents === undefined ? null : 'load.agents',
          option: 'load.agents ',
          else: './agents',
        },
      }
    : undefined;
  const [setting] = settings.endpoints;

  return {
    endpoint: () => createEndpoint(setting as NonNullable<typeof setting>, 0, settings.key),

    async workload() {
      const target = await openTarget({ settings, models: modelsOf(own, agents), warn, signal });
      try {
        const lengths = {
          inputTokens: load.input_tokens ?? WARM_UP_LENGTHS.inputTokens,
          outputTokens: own === null ? (load.output_tokens as number) : WARM_UP_LENGTHS.outputTokens,
          prefixTokens: load.prefix_tokens ?? 0,
          spread: load.spread ?? 0,
          seed,
        };
        const of = load.file ?? '';
        const workload = await workloadOf({ target, lengths, own, agents, guided: 'on', of, warn });
        return { workload, model: target.model };
      } finally {
        await target.close();
      }
    },

    planned: () => (own === null ? syntheticLengths(study) : ownLengths(own, load.output_tokens)),
  };
}

const SAMPLE = 400;

function syntheticLengths({ load, seed }: Study): Lengths[] {
  const { input_tokens: input = 1, output_tokens: output = 1, prefix_tokens: shared = 0, spread = 0 } = load;
  if (spread === 0) return [{ prompt: input, output, shared }];
  const random = seeded(seed);
  const drawn = (length: number): number =>
    Math.max(1, Math.round(length * (1 - spread + 2 * spread * random())));
  return Array.from({ length: SAMPLE }, () => ({ prompt: drawn(input), output: drawn(output), shared }));
}

/** A rule of thumb, as in fw plan. */
const CHARACTERS_PER_TOKEN = 4;

/** Four characters a token; answers as long as the request allows, unless the load says how long they are. */
function ownLengths({ lines }: OwnLines, output: number | undefined): Lengths[] | null {
  const lengths = lines.slice(0, SAMPLE).map((line): Lengths | null => {
    const body = isObject(line.request) ? line.request.body : line.body;
    const most = isObject(body) ? (body.max_completion_tokens ?? body.max_tokens) : undefined;
    const answer =
      output ?? (Number.isSafeInteger(most) && (most as number) > 0 ? (most as number) : undefined);
    if (answer === undefined) return null;
    const asked = isObject(body)
      ? (body.messages ?? body.prompt ?? '')
      : (line.prompt ?? line.messages ?? '');
    const text = typeof asked === 'string' ? asked : JSON.stringify(asked);
    return { prompt: Math.max(1, Math.ceil(text.length / CHARACTERS_PER_TOKEN)), output: answer, shared: 0 };
  });
  return lengths.includes(null) ? null : (lengths as Lengths[]);
}
