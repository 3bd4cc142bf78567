/** A verb that is no stage: it runs the whole program its own way. */
import type { Fatal } from '../core/item/failure.ts';
import type { OptionSchemas, OptionsOf, Values } from './options.ts';

export interface CommandSpec<S extends OptionSchemas, Given = OptionsOf<S>> {
  name: string;
  summary: string;
  options: S;
  /** what the positional arguments are, such as `FILE [INPUT…]` */
  positional?: string;
  examples?: readonly string[];
  /** a command of commands: the first argument names one of them */
  verbs?: Readonly<Record<string, Command>>;
  /** Says by itself why its words cannot be read; false where that is left to stderr as text. */
  refused?(argv: readonly string[], error: Fatal): Promise<boolean>;
  /** Resolves to the exit code. */
  run(options: Given, positionals: readonly string[]): Promise<number>;
}

export type Command = CommandSpec<OptionSchemas, Values>;

export function command<const S extends OptionSchemas>(spec: CommandSpec<S>): Command {
  return spec as unknown as Command;
}
