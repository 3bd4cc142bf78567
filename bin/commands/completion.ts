/**
 * completion: the script by which a shell completes verbs, options and their values. It has all of them in it, so that no
 * process starts at a press of Tab.
 *
 *   source <(fw completion bash)
 */

import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { type Command, command } from '../../engine/flow/command.ts';
import type { OptionSchema, OptionSchemas } from '../../engine/flow/options.ts';
import { stagesOf } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import { stages } from '../../stages/index.ts';

const SHELLS = ['bash', 'zsh'];

type Commands = Readonly<Record<string, () => Promise<{ default: Command }>>>;

/** The command, for it and the others: the list of commands hands itself over. */
export const completionOf = (commands: Commands): Command =>
  command({
    name: 'completion',
    summary: 'Print the completion script for bash or zsh.',
    positional: SHELLS.join('|'),
    examples: [
      "echo 'source <(fw completion bash)' >> ~/.bashrc",
      "echo 'source <(fw completion zsh)' >> ~/.zshrc",
    ],
    options: {},

    async run(_options, [shell, ...more]) {
      if (shell === undefined || !SHELLS.includes(shell) || more.length > 0) {
        const found = shell === undefined ? 'nothing' : `'${visible([shell, ...more].join(' '))}'`;
        throw usageError(`expected ${SHELLS.join(' or ')}, found ${found}: fw completion bash`);
      }
      const script = await scriptFor(commands);
      process.stdout.write(shell === 'bash' ? script : `${ZSH}${script}`);
      return EXIT.ok;
    },
  });

/** zsh knows the functions of bash's completion once it is asked to. */
const ZSH = `autoload -Uz compinit bashcompinit
(( \${+functions[compdef]} )) || compinit
bashcompinit
`;

/** A verb, with what its options take; those of `ledger` are two words. */
interface Verb {
  name: string;
  options: OptionSchemas;
  verbs: readonly string[];
}

async function verbsOf(commands: Commands): Promise<Verb[]> {
  const all: Verb[] = [];
  for (const [name, load] of Object.entries(stages)) {
    const options = Object.assign({}, ...stagesOf((await load()).default).map(optionsOf));
    all.push({ name, options, verbs: [] });
  }
  for (const [name, load] of Object.entries(commands)) {
    const { options, verbs = {}, positional } = (await load()).default;
    const words = name === 'completion' ? (positional?.split('|') ?? []) : Object.keys(verbs);
    all.push({ name, options, verbs: words });
    for (const [below, { options }] of Object.entries(verbs))
      all.push({ name: `${name} ${below}`, options, verbs: [] });
  }
  return all;
}

async function scriptFor(commands: Commands): Promise<string> {
  const all = await verbsOf(commands);
  const firsts = all.map(({ name }) => name).filter(name => !name.includes(' '));
  const branches = all.map(({ name, options, verbs }) => {
    const words = Object.entries(options).map(([option, schema]) => ({ option, takes: takenBy(schema) }));
    const own = [...words.map(({ option }) => `--${option}`), '--help'].join(' ');
    const values = words
      .filter(({ takes }) => takes !== '')
      .map(({ option, takes }) => `      --${option}) ${takes} ;;`);
    return `  '${name}')
    options='${own}'; verbs='${verbs.join(' ')}'
    case $before in
${[...values, '      *) is_value= ;;'].join('\n')}
    esac ;;`;
  });
  return `_fw() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} verb=\${COMP_WORDS[1]}
  local options= verbs= words= is_value=1 kind= IFS=$' \\t\\n'
  COMPREPLY=()
  # --option=value comes as three words
  if [ "$word" = = ]; then word=; elif [ "$before" = = ]; then before=\${COMP_WORDS[COMP_CWORD-2]}; fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${[...firsts, '--help', '--version'].join(' ')}' -- "$word"))
    return
  fi
  case "$verb \${COMP_WORDS[2]}" in
${all
  .filter(({ name }) => name.includes(' '))
  .map(({ name }) => `    '${name}') [ "$COMP_CWORD" -eq 2 ] || verb='${name}' ;;`)
  .join('\n')}
  esac
  case $verb in
${branches.join('\n')}
  *) is_value= ;;
  esac
  if [ -n "$is_value" ]; then
    case $kind in
    file) IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$word")) ;;
    folder) IFS=$'\\n'; COMPREPLY=($(compgen -d -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    esac
  elif [ "\${word#-}" != "$word" ]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    [ "$COMP_CWORD" -ne 2 ] || COMPREPLY=($(compgen -W "$verbs" -- "$word"))
    IFS=$'\\n'
    [ -n "$verbs" ] || COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _fw fw
`;
}

/** What the shell is to offer for the value of an option, as a command of its own; nothing where it takes none. */
function takenBy(schema: OptionSchema): string {
  if (schema.type === 'boolean') return '';
  if ('enum' in schema && schema.enum) return `words='${schema.enum.join(' ')}'`;
  if (!('file' in schema) || schema.file === undefined) return ':';
  return `kind=${schema.file.endsWith('folder') ? 'folder' : 'file'}`;
}
