/**
 * A client's own form (multipart/form-data) as the JSON that requests are here: its fields as texts, and its file as a data:
 * URL in `file_url`. So it is on record, and so it goes out as a form again (engine/asking/endpoints/form-body.ts).
 */
import { show } from '../../../engine/core/json/show.ts';
import { badRequest, missing } from '../errors.ts';
import { openForm } from '../uploads.ts';

const MOST_FIELDS = 32;
const LONGEST_NAME = 200;
/** bytes of a field, such as a prompt */
const LONGEST_FIELD = 64 * 1024;
const TYPE = /^[a-z]{1,20}\/[a-z0-9.+-]{1,60}$/i;
const UNKNOWN = 'application/octet-stream';
/** What a file is whose sender does not say it, by the end of its name. */
const TYPES: Readonly<Record<string, string>> = {
  flac: 'audio/flac',
  m4a: 'audio/x-m4a',
  mp3: 'audio/mpeg',
  mp4: 'audio/mp4',
  mpga: 'audio/mpeg',
  ogg: 'audio/ogg',
  opus: 'audio/ogg',
  wav: 'audio/wav',
  webm: 'audio/webm',
};

/** `type` is the content type, with its boundary. 400 where it is no form, or none with one file in the part `file`. */
export async function jsonOfForm(body: Buffer, type: string): Promise<Buffer> {
  const fields = new Map<string, string | boolean | string[]>();
  const form = openForm(
    { 'content-type': type },
    {
      ...{ fields: MOST_FIELDS, parts: MOST_FIELDS + 1 },
      ...{ fieldNameSize: LONGEST_NAME, fieldSize: LONGEST_FIELD },
    },
  );
  let file: { type: string; pieces: Buffer[] } | undefined;
  await new Promise<void>((resolve, reject) => {
    const refuse = (why: string, param: string | null = null): void => reject(badRequest(why, param));
    form.on('field', (name, value, isNameCut, isValueCut) => {
      if (isNameCut || isValueCut)
        return refuse(`Expected fields of at most ${LONGEST_FIELD} bytes, found a longer one.`);
      const why = add(fields, name, value);
      if (why !== null) refuse(why, name);
    });
    form.on('file', (name, part, filename, _encoding, said) => {
      part.on('error', () => {}); // the form has it too
      if (name !== 'file')
        return refuse(`Expected the file in the part 'file', found ${show(name)}.`, 'file');
      const pieces: Buffer[] = [];
      file = { type: typeOf(said, filename), pieces };
      part.on('data', (piece: Buffer) => pieces.push(piece));
    });
    for (const limit of ['partsLimit', 'filesLimit', 'fieldsLimit'])
      form.on(limit, () => refuse(`Expected one file and at most ${MOST_FIELDS} fields.`));
    form.on('error', (error: Error) => refuse(`Expected a whole multipart form: ${error.message}.`));
    form.on('finish', resolve);
    form.end(body);
  }).finally(() => form.destroy());
  if (file === undefined) throw missing('file');
  const file_url = `data:${file.type};base64,${Buffer.concat(file.pieces).toString('base64')}`;
  return Buffer.from(JSON.stringify({ ...Object.fromEntries(fields), file_url }));
}

/** Why a field is none, in words; null where it is added. Lists are `name[]`; only `stream` is read as more than text. */
function add(fields: Map<string, string | boolean | string[]>, name: string, value: string): string | null {
  const isList = name.endsWith('[]');
  const called = isList ? name.slice(0, -2) : name;
  if (called === 'file_url') return "Expected the audio in the part 'file', found file_url.";
  const before = fields.get(called);
  if (isList && Array.isArray(before)) before.push(value);
  else if (before !== undefined) return `Expected ${show(called)} once; a list has ${show(`${called}[]`)}.`;
  else if (isList) fields.set(called, [value]);
  else fields.set(called, called === 'stream' && /^(?:true|false)$/.test(value) ? value === 'true' : value);
  return null;
}

function typeOf(said: string, filename: string | undefined): string {
  if (said !== UNKNOWN && TYPE.test(said)) return said;
  return TYPES[/\.([a-z0-9]{1,8})$/i.exec(filename ?? '')?.[1]?.toLowerCase() ?? ''] ?? UNKNOWN;
}
