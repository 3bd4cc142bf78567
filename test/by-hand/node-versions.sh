#!/usr/bin/env bash
# Packs fw, installs the package in an empty folder under Node 20, 22 and 24, and does there what a new user does: the
# command, the README's pipe against three simulated servers, the library by its name from TypeScript, and the programs
# of docs/library.md and a Highland pipe as JavaScript and as TypeScript. A minute each.
# Needs npm; the Nodes come from its package `node`.
#   test/by-hand/node-versions.sh [VERSION…]
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
page=$PWD/docs/library.md
servers=()
leave() {
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2> /dev/null || true
  wait
  rm -rf "$work"
}
trap leave EXIT

[ -d node_modules ] || npm ci --no-audit --no-fund
npm pack --silent --pack-destination "$work" > /dev/null
package=$(ls "$work"/*.tgz)
printf 'packed: %s bytes, %s files\n' "$(stat -c %s "$package")" "$(tar tzf "$package" | wc -l)"

try() {
  local version=$1 from rows=60
  cd "$work"
  mkdir "node-$version" "project-$version"
  (cd "node-$version" && npm init -y > /dev/null && npm i --silent --no-audit --no-fund "node@$version")
  cd "project-$version"
  npm init -y > /dev/null
  PATH=$work/node-$version/node_modules/.bin:$PATH
  node -e 'if (process.versions.node.split(".")[0] !== process.argv[1]) throw Error(process.version)' "$version"
  npm i --silent --no-audit --no-fund "$package"
  printf '\nNode %s: installed %s package(s); fw %s\n' "$(node --version)" "$(ls node_modules | wc -l)" "$(npx fw --version)"
  PATH=$PWD/node_modules/.bin:$PATH
  from=node_modules/fairwatch

  local endpoints=() n
  for n in 1 2 3; do
    node $from/dist/bin/fw.js simulate --port 0 --seed 7 --latency 20ms > server$n.json 2> server$n.log &
    servers+=($!)
  done
  for n in 1 2 3; do
    until [ -s server$n.json ]; do sleep 0.1; done
    endpoints+=(--endpoint "$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).url' server$n.json)")
  done
  cp $from/fixtures/applications-60.csv prompts.csv
  cat prompts.csv | fw ingest | fw chain --ledger ledger "${endpoints[@]}" 2> chain.log | fw legacy > out.jsonl
  fw validate < out.jsonl | fw null-fix | fw verify --expect $rows
  fw run $from/pipelines/fairwatch/batch.yaml prompts.csv "${endpoints[@]}" --output again.jsonl 2> run.log || { cat run.log; exit 1; }
  fw verify --expect $rows again.jsonl

  npm i --silent --no-audit --no-fund typescript@5.9.3 "@types/node@$version"
  cat > use.mts << 'END'
import { chain, Fatal, type Item, ingest, legacyConvert, rowOfStage, run, stage, synthesizeDecision, verify } from 'fairwatch';

const shout = rowOfStage(
  stage({
    name: 'shout',
    summary: 'Write prompts in capitals.',
    options: { mark: { type: 'string', default: '!', description: 'What comes behind them.' } },
    each: ({ mark }) => item => ({ ...item, prompt: `${item.prompt?.toUpperCase()}${mark}` }),
  }),
);
const endpoint = process.argv.slice(2);
const lines: Item[] = [];
const asked = ingest({ limit: 5 }).through(shout({ mark: '?' })).through(chain({ endpoint }));
const row = asked.through(synthesizeDecision({ endpoint })).through(legacyConvert()).through(verify({ expect: 5, pass: true }));
const { outcome, account } = await run(row, { inputs: ['prompts.csv'], output: line => void lines.push(line) });
// @ts-expect-error the types know the options
const refused = (() => { try { return verify({ expct: 5 }); } catch (error) { return error instanceof Fatal; } })();
// @ts-expect-error and the values of them
const typed: number = outcome;
if (outcome !== 'ok' || lines.length !== 5 || refused !== true) throw new Error(JSON.stringify({ outcome, lines, typed }));
console.log(`library: ${lines.length} results, ${account.asked?.calls} calls`);
END
  npx tsc --strict --skipLibCheck false --module nodenext --target es2023 --types node use.mts
  node use.mjs $(printf '%s\n' "${endpoints[@]}" | grep http)
  kill "${servers[@]}"
  wait "${servers[@]}" 2> /dev/null || true
  servers=()
  programs
}

# The programs of the page, which have no types of their own, so that they are JavaScript too; each has to print something.
programs() {
  mkdir programs
  cp prompts.csv programs
  head -n 1 out.jsonl > programs/out.jsonl
  cd programs
  npm i --silent --no-audit --no-fund --prefix .. highland@2.13.5
  awk '/^```ts$/ { inside = 1; n++; next } /^```$/ { inside = 0 } inside { print > ("page-" n ".mjs") }' "$page"
  cat > highland.mjs << 'END'
import { asThrough, validate } from 'fairwatch';
import highland from 'highland';

const items = highland([{ id: 'a', prompt: 'What is a?' }, { id: 'b', prompt: 'What is b?' }]);
const ids = await items.through(asThrough(validate())).map(({ id }) => id).collect().toPromise(Promise);
if (ids.join() !== 'a,b') throw new Error(JSON.stringify(ids));
console.log(ids);
END
  [ "$(echo page-*.mjs)" = 'page-1.mjs page-2.mjs page-3.mjs' ]
  local program
  for program in *.mjs; do
    cp "$program" "${program%.mjs}-typed.mts"
    [ -n "$(node "$program")" ]
  done
  npx tsc --strict --skipLibCheck false --module nodenext --target es2023 --types node ./*.mts
  for program in *-typed.mjs; do [ -n "$(node "$program")" ]; done
  printf 'programs: %s, as JavaScript and as TypeScript\n' "$(ls ./*-typed.mjs | wc -l)"
}

[ $# -gt 0 ] || set -- 20 22 24
for version; do
  before=$PATH
  try "$version"
  PATH=$before
done
echo 'all as expected'
