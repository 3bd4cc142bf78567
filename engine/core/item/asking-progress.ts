/**
 * How far the asking of a run is, counted in answers that its items need, one for each agent: an answer that is asked
 * again counts once, and so does one from the ledger. An item that fails early, or leaves without being asked, has
 * nothing left to wait for. So what is settled is never more than what is due, and the same in the end.
 */
export interface Workload {
  /** items that came to the stage that asks, and that left it */
  items: number;
  left: number;
  /** answers that those which came lack, and how many of these are there or will never come */
  due: number;
  settled: number;
  /** answers that an item lacks, as long as none has come */
  likely: number;
  /** items that lack n answers now, at index n; nothing at 0 */
  lacking: number[];
}

/** What one item still lacks. */
export interface Due {
  answered(): void;
  /** It leaves the stage, whatever it lacks. */
  end(): void;
}

export function newWorkload(): Workload {
  return { items: 0, left: 0, due: 0, settled: 0, likely: 1, lacking: [] };
}

/** An item begins, and lacks so many answers. */
export function begin(workload: Workload, answers: number): Due {
  let lacks = answers;
  workload.due += lacks;
  const move = (to: number): void => {
    if (lacks > 0) workload.lacking[lacks] = (workload.lacking[lacks] ?? 0) - 1;
    if (to > 0) workload.lacking[to] = (workload.lacking[to] ?? 0) + 1;
  };
  if (lacks > 0) workload.lacking[lacks] = (workload.lacking[lacks] ?? 0) + 1;
  return {
    answered() {
      if (lacks === 0) return;
      move(lacks - 1);
      lacks -= 1;
      workload.settled += 1;
    },
    end() {
      move(0);
      workload.settled += lacks;
      lacks = 0;
    },
  };
}

/** All that is known of the work of a run. */
export interface Ahead {
  settled: number;
  /** answers in all: of the items that came, and of the others if they are like these */
  due: number;
  /** of the due ones that are not settled, those of items that have not come yet */
  unread: number;
  /** answers that one item has before it one after the other, at most: of those that have not come, else of those that have */
  longest: number;
}

/**
 * What lies ahead of a row of asking stages, where `done` of `total` items have left the run. What an item needs that has
 * not come is what those needed that have.
 */
export function aheadOf(workloads: readonly Workload[], total: number, done: number): Ahead {
  const sum: Ahead = { settled: 0, due: 0, unread: 0, longest: 0 };
  let behind = 0; // answers that an item has before it in the later stages
  for (let at = workloads.length - 1; at >= 0; at--) {
    const { items, left, due, settled, likely, lacking } = workloads[at] as Workload;
    const mean = items > 0 ? due / items : likely;
    // those that left the row before this stage never come, and those between two stages have come or will
    const outside = total - done - (items - left) - insideAfter(workloads, at);
    const coming = Math.max(0, Math.min(total - items, outside));
    const most = lacking.findLastIndex(count => count > 0);
    sum.settled += settled;
    sum.due += due + coming * mean;
    sum.unread += coming * mean;
    sum.longest = Math.max(sum.longest, most > 0 ? most + behind : 0, coming > 0 ? mean + behind : 0);
    behind += mean;
  }
  return sum;
}

/** Items in the stages behind the one at `at`. */
function insideAfter(workloads: readonly Workload[], at: number): number {
  return workloads.slice(at + 1).reduce((inside, { items, left }) => inside + items - left, 0);
}
