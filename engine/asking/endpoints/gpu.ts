/**
 * How busy the GPUs of an endpoint are, for who watches a run: `gpu:` of a pool file names a DCGM exporter's page, or
 * `nvidia-smi` where the server is on this machine. Nothing is decided by it, and a run goes well without it.
 */
import { execFile } from 'node:child_process';
import type { Clock, Timing } from './pool-clock.ts';
import { labelledOf, type Page, pageOf } from './server-load.ts';
import { type OpenWire, openWire, type Wire } from './wire.ts';

/** Of all GPUs of an endpoint, on average; 0 to 1. */
export interface Gpu {
  /** share of the time in which a kernel ran */
  use: number;
  /** share of the memory in use; null where it is not said */
  memory: number | null;
}

/** Where an endpoint's GPUs are seen. */
export interface GpuSetting {
  /** URL of a page of metrics, or `nvidia-smi` */
  from: string;
  /** numbers or UUIDs of the GPUs that the endpoint has; empty for all that are shown */
  ids: readonly string[];
}

/** In the place of a URL: the server is on this machine. */
export const SMI = 'nvidia-smi';

/** Percent; DCGM has the second, a ratio, where a card is divided (MIG) and the first says nothing. */
const USE = 'DCGM_FI_DEV_GPU_UTIL';
const ACTIVE = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE';
/** MiB */
const MEMORY_USED = 'DCGM_FI_DEV_FB_USED';
const MEMORY_FREE = 'DCGM_FI_DEV_FB_FREE';
const LABELS = ['gpu', 'UUID'];

/** What a DCGM exporter says of the GPUs `ids`; null where it says nothing of their use. */
export function readGpuPage(page: Page, ids: readonly string[]): Gpu | null {
  const valuesOf = (name: string): number[] => labelledOf(page, name, LABELS, ids);
  const percents = valuesOf(USE).map(value => value / 100);
  const use = percents.length > 0 ? percents : valuesOf(ACTIVE);
  if (use.length === 0) return null;
  const used = sumOf(valuesOf(MEMORY_USED));
  const all = used + sumOf(valuesOf(MEMORY_FREE));
  return { use: shareOf(sumOf(use) / use.length), memory: all > 0 ? shareOf(used / all) : null };
}

/** Asked of nvidia-smi, in this order. */
const ASKED = ['index', 'uuid', 'utilization.gpu', 'memory.used', 'memory.total'];

/** What `nvidia-smi --query-gpu=… --format=csv,noheader,nounits` printed, a GPU a line: `0, GPU-1f…, 93, 70311, 81559`. */
export function readSmi(text: string, ids: readonly string[]): Gpu | null {
  const rows = text
    .split('\n')
    .map(line => line.split(',').map(field => field.trim()))
    .filter(fields => fields.length === ASKED.length)
    .filter(([index = '', uuid = '']) => ids.length === 0 || ids.includes(index) || ids.includes(uuid));
  // a value that a card does not have is `[N/A]`
  const uses = rows.map(fields => numberOf(fields[2])).filter(Number.isFinite);
  if (uses.length === 0) return null;
  const known = rows
    .map(fields => [numberOf(fields[3]), numberOf(fields[4])] as const)
    .filter(([used, total]) => Number.isFinite(used) && total > 0);
  const total = sumOf(known.map(([, all]) => all));
  return {
    use: shareOf(sumOf(uses) / uses.length / 100),
    memory: total > 0 ? shareOf(sumOf(known.map(([used]) => used)) / total) : null,
  };
}

const numberOf = (field: string | undefined): number => (field ? Number(field) : Number.NaN);
const shareOf = (value: number): number => Math.min(1, Math.max(0, value));
const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/** nvidia-smi takes a good part of a second, and a page is made anew every few: more often tells nothing more. */
const LOOK_MS = 5_000;
const MOST_BYTES = 64 * 1024;

/** An endpoint: where its GPUs are seen, and what was said of them last. */
interface Seen {
  url: string;
  gpuSeen: GpuSetting | null;
  gpu: Gpu | null;
}

export interface LookingAtGpus {
  endpoints: readonly Seen[];
  clock: Clock;
  timing: Timing;
  warn: (message: string) => void;
  openWire?: OpenWire | undefined;
  /** runs nvidia-smi; tests have their own */
  smi?: Smi | undefined;
}

/** `done` hears what was printed, or why there is nothing. */
export type Smi = (args: readonly string[], timeout: number, done: (printed: string | Error) => void) => void;

const runSmi: Smi = (args, timeout, done) => {
  execFile('nvidia-smi', args, { timeout, maxBuffer: MOST_BYTES }, (error, stdout) => done(error ?? stdout));
};

/** `look` is called at each tick. A page is read once for all endpoints that name it. */
export function lookAtGpus({ endpoints, clock, timing, warn, ...world }: LookingAtGpus) {
  const sourcesNow = () =>
    [...new Set(endpoints.flatMap(({ gpuSeen }) => gpuSeen?.from ?? []))].map(from => ({
      from,
      wire: from === SMI ? null : (world.openWire ?? openWire)(new URL(from).origin, undefined),
      ofIt: endpoints.filter(({ gpuSeen }) => gpuSeen?.from === from),
      next: 0,
      isLooking: false,
      isTold: false,
    }));
  let sources = sourcesNow();
  const close = () => Promise.all(sources.map(({ wire }) => wire?.close()));
  type Source = (typeof sources)[number];

  function look(source: Source): void {
    source.isLooking = true;
    const settle = (read: ((ids: readonly string[]) => Gpu | null) | null, cause: string): void => {
      if (!source.isLooking) return; // it was given up, and answered then
      callOff();
      source.isLooking = false;
      for (const endpoint of source.ofIt) endpoint.gpu = read?.(endpoint.gpuSeen?.ids ?? []) ?? null;
      const blind = source.ofIt.find(({ gpu }) => gpu === null);
      source.next = clock.now() + (blind === undefined ? LOOK_MS : timing.lookAgain);
      if (blind === undefined || source.isTold) return;
      source.isTold = true;
      const which = blind.gpuSeen?.ids.length ? ` of ${blind.gpuSeen.ids.join(', ')}` : '';
      warn(
        `${blind.url}: expected the use of its GPUs${which} from ${source.from}, found ${cause}; ` +
          'the run continues without it, and looks again every minute',
      );
    };
    const callOff = clock.after(timing.probeTimeout, () => {
      settle(null, 'no answer in time');
      stop();
    });
    const stop = source.wire === null ? askSmi(settle) : askPage(source.wire, source.from, settle);
  }

  function askPage(wire: Wire, from: string, settle: Settle): () => void {
    const exchange = wire.send({ method: 'GET', path: new URL(from).pathname }, outcome => {
      if (outcome instanceof Error) settle(null, 'no page');
      else if (outcome.status !== 200) settle(null, `HTTP ${outcome.status}`);
      else {
        const page = pageOf(outcome.body);
        settle(ids => readGpuPage(page, ids), `a page without ${USE}`);
      }
    });
    return () => exchange.abort(new Error('no metrics in time'));
  }

  function askSmi(settle: Settle): () => void {
    const args = [`--query-gpu=${ASKED.join()}`, '--format=csv,noheader,nounits'];
    (world.smi ?? runSmi)(args, timing.probeTimeout, printed => {
      if (typeof printed === 'string') settle(ids => readSmi(printed, ids), 'no such GPU in what it printed');
      else
        settle(null, 'code' in printed && printed.code === 'ENOENT' ? 'no such program' : 'an error of it');
    });
    return () => {};
  }

  return {
    look(now: number): void {
      for (const source of sources) if (!source.isLooking && now >= source.next) look(source);
    },
    /** There are other endpoints now. */
    follow(): void {
      void close();
      sources = sourcesNow();
    },
    close,
  };
}

type Settle = (read: ((ids: readonly string[]) => Gpu | null) | null, cause: string) => void;

/** What was said over some time. */
export interface GpuSum {
  ms: number;
  use: number;
  memory: number;
}

/** It said `gpu` for the last `ms`. */
export function noteGpu(all: GpuSum, { use, memory }: Gpu, ms: number): void {
  all.ms += ms;
  all.use += use * ms;
  all.memory += (memory ?? 0) * ms;
}

/** null where nothing was said. */
export function averageGpu({ ms, use, memory }: GpuSum): Gpu | null {
  return ms === 0 ? null : { use: use / ms, memory: memory === 0 ? null : memory / ms };
}
