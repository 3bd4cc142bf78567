/** The lines of the shell that here.ts understands: pipes of commands, redirected to files, one after the other. */

export interface Command {
  /** as it was typed */
  raw: string;
  /** as they were typed, without the redirections */
  words: string[];
  input?: string;
  output?: Target;
  /** of standard error */
  errors?: Target | 'with the output';
}

export interface Target {
  path: string;
  isAdded: boolean;
}

export interface Pipeline {
  commands: Command[];
  /** it runs where the one before it has ended with 0, with another code, or in any case */
  after: string;
  /** it comes behind `code=$?` in a line that ends with `exit $code`: its own code is none of the line's */
  isAside?: boolean;
}

/** Words that begin something longer, or that change the shell for what comes after them. */
const OF_SHELL =
  /^(?:[!{}[\]]+|if|for|while|until|case|function|time|exec|cd|set|export|unset|trap|wait|eval|source|\.|read|exit|shopt|umask|ulimit|\w+\+?=.*)$/s;
const TOKEN =
  /[ \t]+|\\\n|(?<op>(?:\n|;|&&|\|\||\|(?!&))\s*)|(?<to>2>&1|2>>|2>|<|>>|>)(?![&(<|])|(?<word>(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\[^\n]|[^\s|;&<>()`'"\\])+)/sy;

/** A loop over plain words, whose output goes where that of the line goes. */
const LOOP =
  /\bfor (?<name>\w+) in (?<words>[^;\n$`*?'"]+?)[ \t]*[;\n]\s*do\b(?<body>[\s\S]*?)[;\n]\s*done\b(?![ \t]*[|<>&])/g;
const WITH_CODE = /^(?<line>[\s\S]*?)[;\n]\s*code=\$\?\s*[;\n](?<rest>[\s\S]*)[;\n]\s*exit \$code\s*$/;

/** The line with its loops written out, a round after the other. */
function unrolled(line: string): string {
  return line.replaceAll(LOOP, (...match) => {
    const { name, words, body } = match.at(-1) as Record<'name' | 'words' | 'body', string>;
    const rounds = words
      .split(/[ \t]+/)
      .map(word => body.trim().replaceAll(new RegExp(`\\$${name}\\b`, 'g'), word));
    return rounds.join('; ');
  });
}

/** Its pipelines, or null for a line of another kind. */
export function parseLine(line: string): Pipeline[] | null {
  const { line: first, rest } = WITH_CODE.exec(line)?.groups ?? {};
  if (first === undefined || rest === undefined) return pipelinesOf(unrolled(line));
  const both = [first, rest].map(part => pipelinesOf(unrolled(part)));
  const [own, others] = both;
  return own && others ? [...own, ...others.map(each => ({ ...each, isAside: true }))] : null;
}

function pipelinesOf(line: string): Pipeline[] | null {
  const text = line.trim();
  // variables of the environment are all that a shell would have to put in
  if (/\$(?![A-Z_]+\b)|\$PIPESTATUS|`/.test(text.replaceAll(/'[^']*'/g, ''))) return null;
  const pipelines: Pipeline[] = [];
  let after = ';';
  let commands: Command[] = [];
  let command: Command = { raw: '', words: [] };
  let sign: string | undefined;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const token = TOKEN.exec(text);
    if (token === null) return null;
    const { op, to, word } = token.groups as Record<string, string | undefined>;
    if (op === undefined) command.raw += token[0];
    else {
      if (sign !== undefined || command.words.length === 0) return null;
      commands.push(command);
      command = { raw: '', words: [] };
      if (op.trimEnd() === '|') continue;
      pipelines.push({ commands, after });
      commands = [];
      after = op.trim() || ';';
    }
    if (to === '2>&1') command.errors = 'with the output';
    else if (to !== undefined) {
      if (sign !== undefined) return null;
      sign = to;
    } else if (word !== undefined && sign !== undefined) {
      const path = plain(word);
      if (path === null) return null;
      if (sign === '<') command.input = path;
      else command[sign.startsWith('2') ? 'errors' : 'output'] = { path, isAdded: sign.endsWith('>>') };
      sign = undefined;
    } else if (word !== undefined) {
      const isDescriptor = /^\d$/.test(word) && /[<>]/.test(text[TOKEN.lastIndex] ?? '');
      if (isDescriptor || word.startsWith('#')) return null;
      if (command.words.length === 0 && OF_SHELL.test(word)) return null;
      command.words.push(word);
    }
  }
  if (sign !== undefined || (command.words.length === 0 && commands.length > 0)) return null;
  if (command.words.length > 0) pipelines.push({ commands: [...commands, command], after });
  return pipelines;
}

/** What a word is without its quotes; null where that takes a shell: variables, globs, braces. */
export function plain(word: string): string | null {
  const parts = word.match(/'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^'"\\]+/gs) ?? [];
  const texts = parts.map(part => {
    if (part.startsWith("'")) return part.slice(1, -1);
    if (part.startsWith('\\')) return part.slice(1);
    if (/[$`]/.test(part)) return null;
    if (part.startsWith('"')) return part.slice(1, -1).replaceAll(/\\(["\\\n])/g, '$1');
    return /[*?[{~]/.test(part) ? null : part;
  });
  return texts.includes(null) ? null : texts.join('');
}
