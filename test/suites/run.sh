#!/usr/bin/env bash
# Third-party suites, run by hand: test/suites/run.sh [SUITE…]; without a name all that install their own data, which is
# every one but json-repair. Each installs its data into a temporary folder, runs the built program on it, and closes with `N passed, N failed`.
# Exit 1 where a case fails that is not named as an exception in the suite's script, or where an exception passes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -gt 0 ] || set -- json-parsing json-schema csv-spectrum
FW_SUITES=$(mktemp -d)
export FW_SUITES
trap 'rm -rf "$FW_SUITES"' EXIT
banner="import { createRequire as __createRequire } from 'node:module'; const require = __createRequire('$PWD/package.json');"
code=0
for suite in "$@"; do
  npx esbuild "test/suites/$suite.ts" --bundle --format=esm --platform=node --main-fields=module,main --target=node20 \
    --banner:js="$banner" --outfile="$FW_SUITES/$suite.mjs" --log-level=warning && node "$FW_SUITES/$suite.mjs" || code=1
done
exit $code
