/** Tokens a second that fall where more is asked at once: a server that batches does not do that by itself, so why? */
import { counted, number } from '../../../engine/core/item/wording.ts';
import { type BenchResult, loadWords } from './bench-result.ts';

/** Less than this share of what a smaller load had. */
const FALLS_BELOW = 0.95;
const FULL = 0.95;

/** A sentence for each closed loop that gave less than a smaller one on as many servers. */
export function fallingLoads(results: readonly BenchResult[]): string[] {
  const notes: string[] = [];
  const closed = results.flatMap(run => {
    const { load } = run.fw;
    const rate = run.fw.steady?.output_throughput ?? run.output_throughput;
    return load.kind === 'closed' && rate !== null ? [{ run, at: load.concurrency, rate }] : [];
  });
  for (const { run, at, rate } of closed) {
    const better = closed
      .filter(other => other.at < at && other.run.fw.endpoints.length === run.fw.endpoints.length)
      .sort((a, b) => b.rate - a.rate)[0];
    if (better === undefined || !(rate < FALLS_BELOW * better.rate)) continue;
    notes.push(
      `${loadWords(run.fw.load)}: ${number(Math.round(rate))} tokens/s out, less than the ${number(Math.round(better.rate))} of ${loadWords(better.run.fw.load)}: ${reasonOf(run)}`,
    );
  }
  return notes;
}

function reasonOf({ failed, fw: { verdict, server } }: BenchResult): string {
  const reasons: string[] = [];
  if (verdict === 'client-limited') reasons.push('the client was the limit');
  if (failed > 0) reasons.push(`${counted(failed, 'request')} failed`);
  if (server?.preemptions)
    reasons.push(
      `the servers preempted ${counted(server.preemptions, 'request')}, whose work was done again`,
    );
  if ((server?.kv_max ?? 0) > FULL) reasons.push('the KV cache was full');
  if (server && (server.waiting_mean ?? 0) > (server.running_mean ?? 0))
    reasons.push('more requests waited than ran: the batch is small (--max-num-seqs)');
  if (reasons.length > 0) return reasons.join('; ');
  return server === null
    ? 'the servers have no metrics that would say why'
    : 'neither the client nor the queue, the KV cache or preemptions say why';
}
