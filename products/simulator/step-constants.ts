/**
 * The constants by which a step is made of the facts of a model and a card, each with its source. None was fitted to runs
 * of a whole server.
 */
const VIDUR = 'vidur (MLSys 2024), data/profiling/compute';

export const CONSTANTS = {
  bandwidth: {
    value: 0.89,
    what: 'share of the memory bandwidth at which weights are read',
    source: `${VIDUR}/h100: the slope over the bytes of 40 products of 1 to 16 tokens (QKV, output, up, down) of Llama-2-70B and CodeLlama-34B, split over eight H100`,
  },
  kernelUs: {
    value: 3.7,
    what: 'what a kernel takes beside reading and computing, in µs',
    source: `${VIDUR}/h100: of the same tables what is left of each product, 4.1 µs, and norms, rotation, activation and addition, 3.4 µs; the mean of the nine of a layer. Llama-2-7B and phi-2 on one H100, 5.63 and 2.69 ms, come out at 5.4 and 2.6`,
  },
  compute: {
    value: 0.62,
    what: 'share of the peak at which weights are multiplied',
    source: `${VIDUR}: the slope over 1 to 4,096 tokens, of seven tables of H100, A100 and A40: 0.53 to 0.67, the middle one`,
  },
  attention: {
    value: 0.5,
    what: 'share of the peak at which prefill attention is computed',
    source: 'inferred: FlashAttention papers have 0.5 to 0.75 for long prompts, less for short ones',
  },
  kv: {
    value: 0.75,
    what: 'share of the memory bandwidth at which the KV cache is read',
    source: 'as in the other presets: inferred from published runs at many requests in flight',
  },
  stepMs: {
    value: 0.5,
    what: 'sampling, and what the CPU does of a step that the card waits for, in ms',
    source: 'as in the other presets: inferred from published runs at one request in flight',
  },
  sequenceMs: {
    value: 0.008,
    what: 'the same for a sequence, in ms',
    source: 'as in the other presets: inferred',
  },
  requestMs: {
    value: 4,
    what: 'HTTP, tokenizing and detokenizing of a request, in ms',
    source: 'inferred: where fw plan --calibrate begins',
  },
  oneShotUs: {
    value: 6,
    what: 'what an all-reduce takes in which each card reads from all others, beside the bytes, in µs',
    source:
      'vLLM pull request 24532, custom all-reduce in one stage, 4 H100: 10 µs for 0.5 MB, 38 µs for 4 MB',
  },
  oneShotLink: {
    value: 0.88,
    what: 'share of the link at which they are read',
    source:
      'the same table; 24111 has 7 µs for 0.5 MB on 2 H100 and 13 µs on 6, where this says 7.3 and 12.6',
  },
  ringUs: {
    value: 18,
    what: 'what an all-reduce of NCCL takes beside the bytes, in µs',
    source: 'vLLM pull request 24532, pynccl on 4 H100: 21 µs for 0.5 MB, 39 µs for 4 MB',
  },
  ringLink: {
    value: 0.7,
    what: 'share of the link at which a ring moves bytes',
    source: 'the same table 0.68; vidur, data/profiling/a40/all_reduce.csv: 0.73 over the bridge of two A40',
  },
} as const;
