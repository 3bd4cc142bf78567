/**
 * What a config.json says of a model that decides how fast it is and how much memory it takes: its layers, its heads, its
 * experts, how its weights are stored. Facts of known models ship by name (facts/models.json, each with its source).
 */
import models from './facts/models.json' with { type: 'json' };
import { type Stored, storageOf } from './weight-storage.ts';

export interface ModelFacts {
  name: string;
  layers: number;
  hidden: number;
  heads: number;
  kvHeads: number;
  headSize: number;
  vocabulary: number;
  /** the LM head is the embedding, once in memory */
  isTied: boolean;
  /** width of the feed-forward layers that are not experts, and how many layers have one */
  dense: { width: number; layers: number };
  /** `shared`: width of the experts that every token passes; 0 where there are none */
  experts: { layers: number; count: number; perToken: number; width: number; shared: number } | null;
  /** multi-head latent attention: sizes of what is cached and projected */
  latent: { kvRank: number; queryRank: number; rope: number; nope: number; value: number } | null;
  /** layers that see no more than so many tokens back */
  window: { tokens: number; layers: number } | null;
  /** tokens of a prompt and its answer; null where the config does not say it */
  context: number | null;
  stored: Stored;
}

type Json = Record<string, unknown>;

/** Layers of these are an attention and a gated feed-forward layer of three matrices, or experts of such. */
const KNOWN_TYPES = new Set(
  'llama mistral mixtral qwen2 qwen3 qwen2_moe qwen3_moe qwen2_5_vl qwen2_5_vl_text gemma gemma2 gemma3_text phi3 deepseek_v2 deepseek_v3 gpt_oss llama4 llama4_text granite olmo2 cohere cohere2 smollm3 kimi_k2 glm4_moe minimax_m2'.split(
    ' ',
  ),
);

export const KNOWN_MODELS: readonly string[] = models.map(({ id }) => id);

/** What a config of the kind may leave out: transformers, configuration_gemma3.py, has it as the defaults of its class. */
const GEMMA3 = {
  vocab_size: 262_208,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  max_position_embeddings: 131_072,
};

/** The config of a model by its name on the hub, or that of one of the same shape; undefined where its facts do not ship. */
export function knownConfig(name: string): unknown {
  const wanted = name.toLowerCase();
  return models.find(({ id, also }) => [id, ...also].some(one => one.toLowerCase() === wanted))?.config;
}

/** @throws RangeError that names the field that is missing or cannot be, `where` in front of it */
export function factsOf(config: unknown, where: string, quantization?: string, dtype?: string): ModelFacts {
  if (!isRecord(config)) throw new RangeError(`${where}: expected an object, as config.json is one`);
  const said: Json = isRecord(config.text_config) ? { ...config, ...config.text_config } : config;
  const text: Json = said.model_type === 'gemma3_text' ? { ...GEMMA3, ...said } : said;
  const read = reader(text, where);
  const type = text.model_type;
  if (typeof type !== 'string' || !KNOWN_TYPES.has(type)) {
    throw new RangeError(
      `${where}: expected a model_type whose layers are known (${[...KNOWN_TYPES].sort().join(', ')}), found ${shown(type)}`,
    );
  }
  expectLayers(text, where);
  const layers = read('num_hidden_layers', 1, 1_000);
  const hidden = read('hidden_size', 64, 262_144);
  const heads = read('num_attention_heads', 1, 4_096);
  const experts = expertsOf(text, type, layers, read);
  const latent = text.kv_lora_rank === undefined ? null : latentOf(text, read);
  if (latent === null && text.head_dim === undefined && hidden % heads !== 0) {
    throw new RangeError(
      `${where}: expected head_dim, or a hidden_size (${hidden}) that num_attention_heads (${heads}) divides`,
    );
  }
  const kvHeads = read('num_key_value_heads', 1, 4_096, heads);
  if (heads % kvHeads !== 0) {
    throw new RangeError(
      `${where}: expected num_attention_heads (${heads}) to be a multiple of num_key_value_heads (${kvHeads})`,
    );
  }
  const denseField =
    type.startsWith('llama4') && text.intermediate_size_mlp ? 'intermediate_size_mlp' : 'intermediate_size';
  const denseLayers = layers - (experts?.layers ?? 0);
  return {
    name: where,
    layers,
    hidden,
    heads,
    kvHeads,
    headSize: read('head_dim', 8, 8_192, Math.floor(hidden / heads)),
    vocabulary: read('vocab_size', 16, 10_000_000),
    isTied: text.tie_word_embeddings === true || type.startsWith('gemma') || type.startsWith('cohere'),
    dense: { width: denseLayers === 0 ? 0 : read(denseField, 16, 1_048_576), layers: denseLayers },
    experts,
    latent,
    window: windowOf(text, type, layers, read),
    context: contextOf(text, read),
    stored: storageOf(text, where, { quantization, dtype }),
  };
}

type Read = (field: string, least: number, most: number, otherwise?: number) => number;

function reader(config: Json, where: string): Read {
  return (field, least, most, otherwise) => {
    const value = config[field] ?? otherwise;
    if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most)
      return value as number;
    throw new RangeError(
      `${where}: expected ${field}, a whole number from ${least} to ${most}, found ${shown(value)}`,
    );
  };
}

function expertsOf(config: Json, type: string, layers: number, read: Read): ModelFacts['experts'] {
  const field = ['num_experts', 'num_local_experts', 'n_routed_experts'].find(name => config[name]);
  if (field === undefined) return null;
  const count = read(field, 2, 4_096);
  const perToken = read(config.experts_per_token ? 'experts_per_token' : 'num_experts_per_tok', 1, count);
  const widthField = config.moe_intermediate_size ? 'moe_intermediate_size' : 'intermediate_size';
  const width = read(widthField, 16, 1_048_576);
  let shared = 0;
  if (config.n_shared_experts) shared = width * read('n_shared_experts', 1, 64);
  else if (config.shared_expert_intermediate_size)
    shared = read('shared_expert_intermediate_size', 16, 1_048_576);
  else if (type.startsWith('llama4')) shared = width;
  const dense = config.first_k_dense_replace ? read('first_k_dense_replace', 0, layers) : 0;
  const stepField = ['decoder_sparse_step', 'interleave_moe_layer_step', 'moe_layer_freq'].find(
    name => config[name],
  );
  const step = stepField === undefined ? 1 : read(stepField, 1, layers);
  const apart = Array.isArray(config.mlp_only_layers) ? config.mlp_only_layers.length : 0;
  const those = Math.max(1, Math.floor((layers - dense) / step) - apart);
  return { layers: those, count, perToken, width, shared };
}

function latentOf(config: Json, read: Read): NonNullable<ModelFacts['latent']> {
  return {
    kvRank: read('kv_lora_rank', 16, 65_536),
    queryRank: config.q_lora_rank ? read('q_lora_rank', 16, 65_536) : 0,
    rope: read('qk_rope_head_dim', 8, 8_192),
    nope: read('qk_nope_head_dim', 8, 8_192),
    value: read('v_head_dim', 8, 8_192),
  };
}

/** As vLLM takes it: some kinds of scaling are in max_position_embeddings already, others are not. */
function contextOf(config: Json, read: Read): number | null {
  if (config.max_position_embeddings === undefined) return null;
  // Command R says less there than it is made for, and vLLM goes by the other field
  const field = config.model_max_length ? 'model_max_length' : 'max_position_embeddings';
  const tokens = read(field, 16, 100_000_000);
  const scaling = config.rope_scaling;
  if (!isRecord(scaling) || String(config.model_type).startsWith('gemma3')) return tokens;
  const { factor, original_max_position_embeddings: original } = scaling;
  const kind = scaling.rope_type ?? scaling.type;
  if (typeof factor !== 'number' || factor < 1 || !['linear', 'dynamic', 'yarn'].includes(kind as string))
    return tokens;
  const from = kind === 'yarn' && typeof original === 'number' ? original : tokens;
  return Math.min(100_000_000, Math.floor(from * factor));
}

const ATTENTION = ['full_attention', 'sliding_attention', 'chunked_attention'];

/** @throws RangeError on a kind of layer whose time is not known */
function expectLayers({ layer_types: kinds }: Json, where: string): void {
  if (kinds === undefined || kinds === null) return;
  const unknown = Array.isArray(kinds) ? kinds.find(kind => !ATTENTION.includes(kind)) : kinds;
  if (Array.isArray(kinds) && kinds.every(kind => ATTENTION.includes(kind))) return;
  throw new RangeError(
    `${where}: expected layer_types, a list of ${ATTENTION.join(', ')}, found ${shown(unknown)}: the time of such a layer is not known`,
  );
}

/** The types that say nothing of single layers have a rule of their own. */
function windowOf(config: Json, type: string, layers: number, read: Read): ModelFacts['window'] {
  const field = config.attention_chunk_size ? 'attention_chunk_size' : 'sliding_window';
  if (!config[field] || config.use_sliding_window === false || type.startsWith('qwen')) return null;
  const tokens = read(field, 16, 100_000_000);
  if (Array.isArray(config.layer_types)) {
    const those = config.layer_types.filter(
      kind => kind === 'sliding_attention' || kind === 'chunked_attention',
    );
    return those.length === 0 ? null : { tokens, layers: Math.min(layers, those.length) };
  }
  if (type === 'gemma2' || type === 'gpt_oss') return { tokens, layers: Math.ceil(layers / 2) };
  // every sixth layer, or every fourth, sees all
  const pattern = type === 'gemma3_text' ? 6 : type === 'cohere2' ? 4 : null;
  if (pattern !== null)
    return {
      tokens,
      layers: layers - Math.floor(layers / read('sliding_window_pattern', 2, layers, pattern)),
    };
  if (type.startsWith('llama4'))
    return { tokens, layers: layers - Math.floor(layers / read('no_rope_layer_interval', 2, layers, 4)) };
  return { tokens, layers };
}

/** Parameters by where they are: of a layer's attention, and of the feed-forward parts of the whole model. */
export interface Parameters {
  /** attention of all layers */
  attention: number;
  /** feed-forward layers that are not experts, shared experts and routers */
  forward: number;
  /** routed experts, all of them */
  experts: number;
  /** the LM head, which is read in each step */
  head: number;
  /** the embedding, of which a step reads a row a token; 0 where it is the LM head */
  embedding: number;
}

export function parametersOf(model: ModelFacts): Parameters {
  const { hidden, layers, heads, kvHeads, headSize, vocabulary, dense, experts, latent } = model;
  const head = vocabulary * hidden;
  return {
    attention:
      layers * (latent ? latentParameters(model, latent) : 2 * hidden * headSize * (heads + kvHeads)),
    forward:
      3 * hidden * dense.width * dense.layers +
      (experts ? experts.layers * hidden * (3 * experts.shared + experts.count) : 0),
    experts: experts ? 3 * hidden * experts.width * experts.count * experts.layers : 0,
    head,
    embedding: model.isTied ? 0 : head,
  };
}

function latentParameters(
  { hidden, heads }: ModelFacts,
  { kvRank, queryRank, rope, nope, value }: NonNullable<ModelFacts['latent']>,
): number {
  const query = heads * (nope + rope);
  return (
    (queryRank > 0 ? queryRank * (hidden + query) : hidden * query) +
    hidden * (kvRank + rope) +
    kvRank * heads * (nope + value) +
    heads * value * hidden
  );
}

export const allParameters = (model: ModelFacts): number =>
  Object.values(parametersOf(model)).reduce((sum, count) => sum + count, 0);

const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function shown(value: unknown): string {
  return value === undefined ? 'none' : (JSON.stringify(value) ?? 'none').slice(0, 80);
}
