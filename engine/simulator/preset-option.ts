/** --preset: a model on a GPU, by the name of a preset or as a file of one's own. */

import { readSmallFile } from '../config/yaml.ts';
import { dataError, usageError } from '../item/failure.ts';
import { PRESETS, type Preset, presetFrom, presetNamed } from './presets.ts';

/** The names, for pages of help and messages. */
export const PRESET_NAMES = PRESETS.map(({ name }) => name).join(', ');

/** A preset by name, or the file of one. Exit 64 on an unknown name, 65 on a file that is none. */
export function readPreset(text: string): Preset {
  if (!/[/\\]|\.json$/.test(text)) {
    try {
      return presetNamed(text);
    } catch (error) {
      throw usageError(`--preset: ${(error as Error).message}`);
    }
  }
  try {
    return presetFrom(JSON.parse(readSmallFile(text, 'a preset')), text);
  } catch (error) {
    if (error instanceof SyntaxError) throw dataError(`${text}: expected JSON, found: ${error.message}`);
    throw error instanceof RangeError ? dataError(error.message) : error;
  }
}
