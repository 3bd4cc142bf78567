/**
 * How the weights of a model are stored, by part: bytes of a weight, and what its products are computed in. From
 * quantization_config of config.json, or from what the server is told instead (vLLM's --quantization and --dtype).
 */

/** `on`: what the tensor cores compute in, where the card can; a 4-bit weight is unpacked to 16 bits first. */
export interface Storage {
  bytes: number;
  on: 'bits16' | 'fp8' | 'int8';
}

export interface Stored {
  attention: Storage;
  forward: Storage;
  experts: Storage;
  head: Storage;
  /** of FP8 with a scale for each block: its side, which the part of each card has to be a multiple of */
  block?: number;
  /** for whoever reads it: BF16, FP8, … */
  words: string;
}

export const QUANTIZATIONS = ['none', 'fp8', 'awq', 'gptq'] as const;
export const DTYPES = ['auto', 'bfloat16', 'float16'] as const;

const BITS16: Storage = { bytes: 2, on: 'bits16' };
const FP8: Storage = { bytes: 1, on: 'fp8' };
const INT8: Storage = { bytes: 1, on: 'int8' };
/** 4 bits, and for each group of 128 weights a scale of 16 bits and a zero of 4 */
const BITS4: Storage = { bytes: 0.5 + 2.5 / 128, on: 'bits16' };
/** 4 bits, and for each block of 32 a scale of 8 */
const MXFP4: Storage = { bytes: 0.5 + 1 / 32, on: 'bits16' };

type Json = Record<string, unknown>;

/** @throws RangeError that names the field that says something unknown */
export function storageOf(
  config: Json,
  where: string,
  { quantization, dtype }: { quantization: string | undefined; dtype: string | undefined },
): Stored {
  const type =
    dtype === undefined || dtype === 'auto' ? (config.torch_dtype ?? config.dtype ?? 'bfloat16') : dtype;
  if (!['bfloat16', 'float16', 'float32'].includes(type as string)) {
    throw new RangeError(
      `${where}: expected torch_dtype bfloat16, float16 or float32, found ${JSON.stringify(type)}`,
    );
  }
  // vLLM serves float32 weights as float16 or bfloat16 unless it is told otherwise
  const plain = type === 'bfloat16' ? 'BF16' : 'FP16';
  const whole = { attention: BITS16, forward: BITS16, experts: BITS16, head: BITS16, words: plain };
  const own = config.quantization_config;
  if (quantization === 'none' || (quantization === undefined && (own === undefined || own === null)))
    return whole;
  if (quantization !== undefined) {
    const linear = quantization === 'fp8' ? FP8 : BITS4;
    return {
      ...whole,
      attention: linear,
      forward: linear,
      experts: linear,
      words: quantization === 'fp8' ? 'FP8' : `4 bit (${quantization})`,
    };
  }
  const said = own as Json;
  const { linear, words } = methodOf(said, where);
  const [block] = Array.isArray(said.weight_block_size) ? (said.weight_block_size as unknown[]) : [];
  const left = [said.ignore, said.modules_to_not_convert, said.ignored_layers]
    .flat()
    .filter(name => typeof name === 'string');
  const leaves = (part: string): boolean => left.some(name => (name as string).slice(0, 200).includes(part));
  const expertsOnly = said.quant_method === 'mxfp4';
  return {
    attention: leaves('self_attn') || expertsOnly ? BITS16 : linear,
    forward: expertsOnly ? BITS16 : linear,
    experts: linear,
    head: BITS16,
    ...(Number.isInteger(block) && (block as number) > 0 && { block: block as number }),
    words: leaves('self_attn') || expertsOnly ? `${words}, attention ${plain}` : words,
  };
}

function methodOf(said: Json, where: string): { linear: Storage; words: string } {
  const method = said.quant_method;
  if (method === 'fp8' || method === 'fbgemm_fp8') return { linear: FP8, words: 'FP8' };
  if (method === 'mxfp4') return { linear: MXFP4, words: 'MXFP4' };
  const bits = method === 'compressed-tensors' ? compressedBits(said) : (said.bits ?? said.w_bit);
  if (method === 'awq' || method === 'gptq' || method === 'compressed-tensors') {
    if (bits === 4) return { linear: BITS4, words: `4 bit (${method})` };
    if (bits === 8 && method === 'compressed-tensors') {
      return isFloat(said) ? { linear: FP8, words: 'FP8' } : { linear: INT8, words: 'INT8' };
    }
    throw new RangeError(
      `${where}: expected quantization_config with weights of 4 or 8 bits, found ${JSON.stringify(bits) ?? 'none'}`,
    );
  }
  throw new RangeError(
    `${where}: expected quantization_config.quant_method fp8, compressed-tensors, awq, gptq or mxfp4, found ${JSON.stringify(method) ?? 'none'}; --quantization says what the server computes in`,
  );
}

function weightsOf(said: Json): Json {
  const groups = said.config_groups;
  const first =
    typeof groups === 'object' && groups !== null
      ? (Object.values(groups)[0] as Json | undefined)
      : undefined;
  const weights = typeof first === 'object' && first !== null ? first.weights : undefined;
  return typeof weights === 'object' && weights !== null ? (weights as Json) : {};
}

const compressedBits = (said: Json): unknown => weightsOf(said).num_bits;
const isFloat = (said: Json): boolean => weightsOf(said).type === 'float';
