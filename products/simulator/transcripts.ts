/** POST /v1/audio/transcriptions without the wire: a form with a file. Its text is made of the file's bytes alone. */
import { type ChatSettings, NOTHING_SAID, type Reply } from './chat.ts';
import { modelAsked } from './question.ts';
import { sha256 } from './random.ts';
import { badRequest } from './refusal.ts';
import { tokensOf } from './tokens.ts';

/** Of speech in 16 kHz and 16 bits. */
const BYTES_PER_SECOND = 32_000;

/** `request` is the hash of `body`. @throws Refusal */
export function transcriptOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const fields = fieldsOf(body);
  const file = fields.get('file');
  if (file === undefined || file === '') throw badRequest('file: Field required.');
  const model = modelAsked({ model: fields.get('model') }, settings.model);
  const format = fields.get('response_format') ?? 'json';
  if (format !== 'json') throw badRequest(`response_format: the simulator writes json, got ${format}.`);
  const text = `A simulated transcript, ${sha256(file).toString('hex').slice(0, 12)}.`;
  const seconds = Math.ceil(file.length / BYTES_PER_SECOND);
  const whole = () => JSON.stringify({ text, usage: { type: 'duration', seconds } });
  return {
    ...NOTHING_SAID,
    kind: 'embedding',
    id: `transcribe-${request.toString('hex').slice(0, 32)}`,
    ...{ model, prompts: ['.'], text },
    usage: { prompt: 1, completion: tokensOf(text), cached: 0 },
    wire: {
      whole,
      script: () => {
        throw new Error('a transcript is not streamed');
      },
    },
  };
}

/** The fields of a form by their names. A file is text here: it is only hashed and counted. */
function fieldsOf(body: string): Map<string, string> {
  const end = body.indexOf('\r\n');
  const boundary = body.slice(0, end);
  if (end < 0 || !boundary.startsWith('--'))
    throw badRequest('expected multipart/form-data: file: Field required.');
  const fields = new Map<string, string>();
  for (const part of body.split(boundary).slice(1, -1)) {
    const split = part.indexOf('\r\n\r\n');
    const [, name] = /[; ]name="([^"]{1,200})"/.exec(part.slice(0, split)) ?? [];
    if (split > 0 && name !== undefined) fields.set(name, part.slice(split + 4, -2));
  }
  return fields;
}
