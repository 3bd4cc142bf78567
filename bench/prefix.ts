import { lcg } from '../products/simulator/random.ts';
import { ask } from './prefix/run.ts';

const words =
  'the of applicant income loan risk report year quarter total assets cash flow debt ratio bank city house credit'.split(
    ' ',
  );
const random = lcg(7);
function text(characters: number): string {
  let all = '';
  while (all.length < characters) all += `${words[Math.floor(random() * words.length)]} `;
  return all.slice(0, characters);
}
const documents = Array.from({ length: 300 }, (_, at) => `Document ${at}. ${text(10_000)}`);
const questions = Array.from({ length: 8 }, (_, at) => `Question ${at}: ${text(80)}?`);
const byDocument = documents.flatMap(document => questions.map(question => `${document}\n${question}`));
const byQuestion = questions.flatMap(question => documents.map(document => `${document}\n${question}`));
const shuffled = [...byDocument];
for (let at = shuffled.length - 1; at > 0; at--) {
  const other = Math.floor(random() * (at + 1));
  [shuffled[at], shuffled[other]] = [shuffled[other]!, shuffled[at]!];
}
for (const servers of (process.env.SERVERS ?? '1,4').split(',').map(Number))
  for (const [name, texts] of Object.entries({ byDocument, byQuestion, shuffled }))
    for (const lookAhead of [1, undefined]) {
      const { makespan, cached, failed, stats } = await ask({
        texts,
        servers,
        ...(lookAhead && { lookAhead }),
      });
      console.log(
        servers,
        name,
        lookAhead ?? 'all',
        makespan.toFixed(1),
        `${(100 * cached).toFixed(0)} %`,
        failed,
        stats.answered,
      );
    }
