/**
 * What a coordinator (`fw serve --redis`, `fw run --redis`) and its workers say to each other. Redis holds pointers alone;
 * lines and results go over HTTP, so that a worker needs no disk in common with anybody. The folder of the coordinator is
 * the truth: it says who holds a part, and takes each result once.
 *
 *   a work    what is to be done with lines: a batch of a server, or the asking stages of a pipeline
 *   a shard   some hundred neighbouring lines of a work, as it was planned once (`root` is its number, from 0)
 *   a part    lines of one shard that are given out together. Part 0 is the whole shard; what is left when a worker hands
 *             back half of it, or when a shard is cut, has a higher number. A closed part takes no result: its number is
 *             the fencing token
 *
 *   POST /shards/hello                     Hello                → Orders        each `every` ms, and before a worker leaves
 *   GET  /shards/:work/task                                     → Task
 *   GET  /shards/:work/files                                    → Files         404 where the task has none
 *   POST /shards/:work/:root/:part/take    { worker }           → Given + lines
 *   PUT  /shards/:work/:root/:part         Result + lines       → { rest }      lines that are still to be done of the part
 *
 * `take` and PUT answer 410 where the part is closed (done, cut, or its work is over) and `take` 409 where another worker
 * holds it. In both cases the pointer is of no use any more: whoever needs it again puts a new one into the queue.
 */

import type { AskedTotals } from '../../engine/core/item/account.ts';
import type { Values } from '../../engine/flow/options.ts';

export interface PartName {
  work: string;
  root: number;
  part: number;
}

/** What the queue holds: less than a KB, no prompt, no key. */
export type Pointer = PartName;

export interface WorkerEndpoint {
  url: string;
  isUp: boolean;
  inFlight: number;
  limit: number;
}

export interface Hello {
  /** of this process, as long as it lives: host, pid and a random end */
  worker: string;
  host: string;
  pid: number;
  version: string;
  /** that its endpoints serve */
  models: string[];
  endpoints: WorkerEndpoint[];
  /** lines that it can have in flight, all its endpoints together */
  places: number;
  /** lines a second, over the last minute in which it had work; 0 while none was done */
  rate: number;
  /** `done` of `lines` have an answer */
  held: (PartName & { done: number; lines: number })[];
  /** it takes nothing more, and is gone when it holds nothing */
  isStopping: boolean;
}

export interface Orders {
  /** names of the queues from which it may take: those of works whose models it serves */
  queues: string[];
  /** Hand back what there is of these, and ask nothing more of them. */
  drop: PartName[];
  /** by URL: how many workers share this endpoint, so that each takes its part of the limit */
  sharing: Record<string, number>;
  /** ms between two hellos; ms of silence after which its parts go to others */
  every: number;
  lease: number;
}

/** What to do with the lines of a work; the same for all of its parts. */
export interface Task {
  /** for messages and the ledger: the batch, or the pipeline file */
  label: string;
  /** the stages, one line in and one line out each. Options that name files are paths in `files` */
  row: { stage: string; options: Values }[];
  /** SHA-256 of what GET …/files answers, in hex; null for none */
  files: string | null;
  /** models that the lines or the agents name; none where any will do */
  models: string[];
  /** whose it is: of several works, owners get equal parts */
  owner: string;
  /** … and of those of an owner, one of twice the weight gets twice as much */
  weight: number;
}

/** Files that the stages read, by path: relative, with / and without .. */
export interface Files {
  files: Record<string, { base64: string }>;
}

/** The first line of what `take` answers; behind it the lines of the part. */
export interface Given {
  /** It may have taken its workers with it: to be asked once all else is handed in, and nothing is taken beside it. */
  isAlone: boolean;
}

/** The first line of a PUT; behind it the lines that are answered, in the order of `answered`. */
export interface Result {
  worker: string;
  /** which lines of the part these are, counted from 0 as they were given, ascending; all of them unless handed back early */
  answered: number[];
  /** what they cost */
  asked: AskedTotals;
  /** that was asked; null where nothing was */
  model: string | null;
  /** seconds that the worker had the part */
  seconds: number;
  /** why it could not be done, in words: counted against the part, as the death of a worker is */
  broken?: string;
}

/** The part is closed, or its work is over (410). */
export class Gone extends Error {}
/** Another worker holds the part (409). */
export class Held extends Error {}
/** A coordinator that has just started may not have opened the work yet (503): ask again. */
export class NotYet extends Error {}
/** The disk of the coordinator does not take or give what is asked (503): ask again. */
export class NotKept extends Error {}
/** One more worker than a coordinator has room for (429): each name that a key says hello under takes some. */
export class TooMany extends Error {}
/** It is no answer to the part that it names (400). */
export class WrongResult extends Error {}
