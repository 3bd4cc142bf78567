/**
 * A prompt written from the columns of a row, as a Liquid template. Strict: a variable or a filter that is not known is
 * an error that names it. Templates include no other files and are bounded in time and memory.
 */
import { resolve } from 'node:path';
import { dataError, ItemFailure } from './failure.ts';
import { readSmallFile } from './yaml.ts';

export interface Template {
  /** as it was given, for messages */
  path: string;
  /** what the template takes from outside; no names that it gives itself */
  variables: readonly string[];
  /** Throws ItemFailure `template-failed`. */
  render(values: { [column: string]: string }): string;
}

const RENDER_MS = 5_000;
const MEMORY = 64 * 1024 * 1024;
const READS_FILES = ['include', 'render', 'layout', 'block'];

/** Reads the template at `path`, found from `base`. Exit 65 with line and column where it is none. */
export async function readTemplate(path: string, base: string): Promise<Template> {
  const text = readSmallFile(resolve(base, path), 'a template');
  const { Liquid } = await import('liquidjs');
  const liquid = new Liquid({
    strictVariables: true,
    strictFilters: true,
    ownPropertyOnly: true,
    lenientIf: true, // {% if x %} and `| default` ask whether there is an x
    jsTruthy: true, // an empty column is empty text, which plain Liquid takes for true
    renderLimit: RENDER_MS,
    memoryLimit: MEMORY,
  });
  for (const tag of READS_FILES) delete liquid.tags[tag];
  try {
    const template = liquid.parse(text);
    return {
      path,
      variables: liquid.globalVariablesSync(template),
      render(values) {
        try {
          return liquid.renderSync(template, { ...values }); // {% increment %} writes into what it is given
        } catch (error) {
          throw new ItemFailure('template-failed', `${path}: ${(error as Error).message}`);
        }
      },
    };
  } catch (error) {
    throw dataError(`${path}: expected a Liquid template, found: ${(error as Error).message}`);
  }
}
