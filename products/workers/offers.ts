/**
 * Which parts are in the queue now. A few pointers more than there are workers wait in it, so that none has to wait; which
 * part is next is decided as late as that: of the owner who has the fewest lines out, of his work that has the fewest for
 * its weight. So a small batch does not wait behind a large one, as it would in a queue that knew all from the beginning.
 *
 * Towards the end of a work parts become smaller, so that all workers end at the same time (guided self-scheduling, after
 * Polychronopoulos and Kuck, 1987): a part has at most 1/(2 workers) of the lines that nobody has yet.
 */
import { createHash } from 'node:crypto';
import type { Keeping } from './getting-nowhere.ts';
import { servesAll, type Workers } from './known-workers.ts';
import type { PointerQueue } from './part-queue.ts';
import type { Part } from './part-states.ts';
import type { Hello, PartName } from './protocol.ts';
import type { PlannedWork } from './shard-work.ts';

/** lines below which a part is not cut to keep workers equal */
const LEAST = 16;
/** models whose queues a worker waits at before there is any work for them */
const MOST_LIKELY = 8;
/** ms that a part is with a worker before it is asked back, where it came back without a line before; doubled each time */
const LEAST_PATIENCE = 10_000;
/** ms between two comparisons with what really waits in the queue */
const RECONCILE = 60_000;

interface OfferOptions {
  queue: PointerQueue;
  id: string;
  lease: number;
  works: ReadonlyMap<string, PlannedWork>;
  workers: Workers;
  now(): number;
  disk: Keeping;
}

export class Offers {
  readonly #is: OfferOptions;
  /** makes ids of this process its own: those of an earlier one may still be in the queue */
  readonly #since: string;
  #count = 0;
  #isClosed = false;
  /** parts that were asked back without a line of them, and how often */
  readonly #askedBack = new WeakMap<Part, { since: number; times: number }>();
  readonly #reconciling: NodeJS.Timeout;

  constructor(options: OfferOptions) {
    this.#is = options;
    this.#since = options.now().toString(36);
    const every = Math.min(RECONCILE, options.lease);
    this.#reconciling = setInterval(() => void this.#reconcile(every / 2), every).unref();
    options.queue.onReady(() => void this.#reconcile(0)); // it may have lost all of them
  }

  fill(): void {
    const { queue, workers, now } = this.#is;
    if (this.#isClosed || !queue.isUp) return;
    for (const [name, groups] of this.#byQueue()) {
      const { models } = groups[0] as Group;
      const there = Math.max(1, workers.serving(models, now()).length);
      const pointers: { id: string; pointer: PartName }[] = [];
      for (let waiting = sum(groups, one => offered(one).length); waiting <= there; waiting++) {
        const next = nextOf(groups);
        if (next === null) break;
        const { work } = next;
        const part = this.#smallEnough(next, there);
        this.#count += 1;
        const { root, part: number } = part;
        const id = `${work.id}.${root}.${number}.${this.#since}-${this.#count}`;
        work.parts.offer(part, id, now());
        pointers.push({ id, pointer: { work: work.id, root, part: number } });
      }
      if (pointers.length > 0) queue.add(name, pointers).catch(() => this.#takeBack(pointers));
    }
  }

  /** From which it may take now, and from which it may be able to soon: it waits there already when the work comes. */
  queuesFor(hello: Hello): string[] {
    const likely = [[], ...hello.models.slice(0, MOST_LIKELY).map(model => [model])];
    const works = [...this.#is.works.values()];
    const open = works.filter(work => !work.isEnded).flatMap(({ groups }) => [...groups.values()]);
    const models = [...likely, ...open.filter(wanted => servesAll(hello, wanted))];
    return [...new Set(models.map(names => this.#queueOf(names)))];
  }

  /**
   * Where nothing waits any more and another worker has nothing to do, who has had its parts for twice the time that
   * others would have needed hands back what it has not begun: a slow worker does not hold up the end.
   */
  toShare({ worker, held }: Hello): PartName[] {
    const { works, workers, now } = this.#is;
    const time = now();
    const rate = workers.rate(time);
    if (rate === null || held.length === 0) return [];
    const patience = (2000 * sum(held, ({ lines }) => lines)) / rate;
    return held
      .filter(({ work: id, root, part: number, done, lines }) => {
        const work = works.get(id);
        const part = work?.parts.find({ root, part: number });
        const lease = part?.lease;
        if (work === undefined || part === undefined || lease?.worker !== worker) return false;
        // a rate is what workers say: with one that is too high, or of shorter calls, parts would go round and round
        const { since, times } = this.#askedBack.get(part) ?? { since: lease.at, times: 0 };
        const before = since === lease.at ? Math.max(0, times - 1) : times;
        if (time - lease.at < Math.max(patience, times > 0 ? LEAST_PATIENCE : 0) * 2 ** before) return false;
        const group = { work, name: part.group, models: work.modelsOf(part) };
        if (waitingIn(group) > 0 || offered(group).length > 0 || lines - done < 2) return false;
        if (!workers.serving(group.models, time).some(one => one.held.length === 0)) return false;
        if (since !== lease.at || times === 0)
          this.#askedBack.set(part, { since: lease.at, times: times + 1 });
        return true;
      })
      .map(({ work, root, part }) => ({ work, root, part }));
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#reconciling);
  }

  #queueOf(models: readonly string[]): string {
    const { id } = this.#is;
    if (models.length === 0) return `${id}-any`;
    const hash = createHash('sha256')
      .update([...models].sort().join('\n'))
      .digest('hex');
    return `${id}-${hash.slice(0, 12)}`;
  }

  #byQueue(): Map<string, Group[]> {
    const queues = new Map<string, Group[]>();
    for (const work of this.#is.works.values()) {
      if (work.isEnded || work.opensAt > this.#is.now()) continue;
      for (const [name, models] of work.groups) {
        const queue = this.#queueOf(models);
        queues.set(queue, [...(queues.get(queue) ?? []), { work, name, models }]);
      }
    }
    return queues;
  }

  /** The next part that waits; cut where it would keep one worker busy after the others have ended. */
  #smallEnough(group: Group, there: number): Part {
    const { work, name } = group;
    const first = (): Part => work.parts.waitingIn(name).list[0] as Part;
    const part = first();
    const { lines } = part;
    const free = work.parts.waitingIn(name).lines + sum(offered(group), one => one.lines.length);
    const most = Math.max(LEAST, Math.ceil(free / (2 * there)));
    if (there === 1 || lines.length < most + LEAST) return part;
    // where it cannot be cut it is given out whole
    this.#is.disk.tried(() =>
      work.cut(part, [
        { ...part, lines: lines.slice(0, most) },
        { ...part, lines: lines.slice(most) },
      ]),
    );
    return first();
  }

  /** Redis is away: they wait again. */
  #takeBack(pointers: readonly { id: string; pointer: PartName }[]): void {
    for (const { id, pointer } of pointers) {
      const work = this.#is.works.get(pointer.work);
      const part = work?.parts.find(pointer);
      if (part?.offer?.id === id) work?.parts.back(part);
    }
  }

  /** What should wait in the queue for `age` ms and does not is offered again. */
  async #reconcile(age: number): Promise<void> {
    try {
      for (const [name, groups] of this.#byQueue()) {
        const asked = this.#is.now();
        const waiting = await this.#is.queue.waiting(name);
        if (this.#isClosed) return;
        // one that was just taken from the queue may be on its way to us
        for (const group of groups)
          for (const part of offered(group))
            if (!waiting.has(part.offer?.id as string) && asked - (part.offer?.at as number) >= age)
              group.work.parts.back(part);
      }
    } catch {
      return; // Redis is away; onReady comes again
    }
    this.fill();
  }
}

/** Lines of a work that the same workers may take. */
interface Group {
  work: PlannedWork;
  name: string;
  models: readonly string[];
}

/** Of those in which something waits: of the owner with the fewest lines out, the work with the fewest for its weight. */
function nextOf(groups: readonly Group[]): Group | null {
  const owners = new Map<string, number>();
  for (const one of groups) {
    const { owner } = one.work.task;
    owners.set(owner, (owners.get(owner) ?? 0) + outOf(one));
  }
  const before = (a: Group, b: Group): number =>
    (owners.get(a.work.task.owner) as number) - (owners.get(b.work.task.owner) as number) ||
    outOf(a) / a.work.task.weight - outOf(b) / b.work.task.weight;
  return groups.filter(one => waitingIn(one) > 0).sort(before)[0] ?? null;
}

const waitingIn = ({ work, name }: Group): number => work.parts.waitingIn(name).list.length;
/** parts that are offered or held */
const out = ({ work, name }: Group): Part[] => [...work.parts.out].filter(({ group }) => group === name);
const outOf = (group: Group): number => sum(out(group), ({ lines }) => lines.length);
const offered = (group: Group): Part[] =>
  out(group).filter(({ offer, lease }) => offer !== null && lease === null);

function sum<T>(of: Iterable<T>, value: (one: T) => number): number {
  let total = 0;
  for (const one of of) total += value(one);
  return total;
}
