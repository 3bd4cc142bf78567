/**
 * Reads what a loan application says, and what earlier agents said of it, out of the text of a prompt. Wording is
 * taken as it comes: a number shortly after a telling word, within the range that such a number has.
 */

export interface Application {
  score?: number;
  /** a year */
  income?: number;
  loan?: number;
  /** debt or instalments to income, as a ratio */
  debtRatio?: number;
  earlier: Opinion[];
}

export interface Opinion {
  approves: boolean;
  rate?: number;
}

/** Prompts are read this far; an application is a few hundred characters, a chain of answers some thousand. */
const READ_AT_MOST = 60_000;

// Each gap is bounded and cannot match the digit that ends it, so that no text makes these slow.
const NUMBER = String.raw`([0-9][0-9,]{0,14}(?:\.[0-9]{1,6})?)\s{0,2}(k\b|%|x\b|times\b|thousand\b)?`;
const SCORE = new RegExp(String.raw`(?:credit[ _-]?score|fico|\bscore)[^0-9\n]{0,40}${NUMBER}`, 'gi');
const INCOME = new RegExp(String.raw`(?:income|salary|earns|earning)[^0-9\n]{0,40}${NUMBER}`, 'gi');
const LOAN = new RegExp(
  String.raw`(?:loan[ _-]?amount|\bsum\b|amount|borrow|requests|requested|asks for)[^0-9\n]{0,40}${NUMBER}`,
  'gi',
);
/** Used where nothing better is found: the bare word may come before some other number. */
const LOAN_ALONE = new RegExp(String.raw`loan[^0-9\n]{0,25}${NUMBER}`, 'gi');
const DEBT = new RegExp(String.raw`(?:\bdti|to[ _-]income|debt[ _-]ratio)[^0-9\n]{0,40}${NUMBER}`, 'gi');

export function readApplication(prompt: string): Application {
  const application: Application = { earlier: [] };
  const lines: string[] = [];
  for (const line of prompt.slice(0, READ_AT_MOST).split('\n')) {
    const opinion = line.startsWith('{') ? opinionFrom(line) : undefined;
    // an earlier answer repeats the numbers in its reasons: it is not the application
    if (opinion) application.earlier.push(opinion);
    else lines.push(line);
  }
  const text = lines.join('\n');
  application.score = find(SCORE, text, value => (value >= 300 && value <= 900 ? value : undefined));
  application.income = find(INCOME, text, (value, before) => {
    const yearly = /month/i.test(before) ? value * 12 : value;
    return yearly >= 1_000 && yearly < 1e8 ? yearly : undefined;
  });
  const asLoan = (value: number) => (value >= 500 && value < 1e9 ? value : undefined);
  application.loan = find(LOAN, text, asLoan) ?? find(LOAN_ALONE, text, asLoan);
  application.debtRatio = find(DEBT, text, (value, _, unit) => {
    const ratio = unit === '%' || value > 3 ? value / 100 : value;
    return ratio <= 3 ? ratio : undefined;
  });
  return application;
}

/** The first number after the words that `judge` takes. */
function find(
  words: RegExp,
  text: string,
  judge: (value: number, before: string, unit: string) => number | undefined,
): number | undefined {
  for (const match of text.matchAll(words)) {
    const unit = (match[2] ?? '').toLowerCase();
    const thousands = unit === 'k' || unit === 'thousand' ? 1_000 : 1;
    const before = text.slice(Math.max(0, match.index - 12), match.index) + match[0];
    const value = judge(Number(match[1]!.replaceAll(',', '')) * thousands, before, unit);
    if (value !== undefined) return value;
  }
  return undefined;
}

function opinionFrom(line: string): Opinion | undefined {
  let answer: { approval_decision?: unknown; interest_rate?: unknown } | null;
  try {
    answer = JSON.parse(line);
  } catch {
    return undefined;
  }
  const { approval_decision: decision, interest_rate: rate } = answer ?? {};
  if (decision !== 'approve' && decision !== 'deny') return undefined;
  return { approves: decision === 'approve', rate: typeof rate === 'number' ? rate : undefined };
}
