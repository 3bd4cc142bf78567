#!/usr/bin/env bash
# Third-party suites: test/suites/run.sh [SUITE…]; without a name all of them. Each installs its data from npm or Debian
# into a temporary folder, runs the built program on it, and closes with `N passed, N failed`. The last is the Python package.
# Exit 1 where a case fails that is not named as an exception in the suite's script, or where an exception passes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -gt 0 ] || set -- json-parsing json-schema csv-spectrum json-repair deploy python
FW_SUITES=$(mktemp -d)
export FW_SUITES
# what a suite bundles of fw looks for its package.json above itself
trap 'rm -rf "$FW_SUITES" dist/suites' EXIT
banner="import { createRequire as __createRequire } from 'node:module'; const require = __createRequire('$PWD/package.json');"
code=0
for suite in "$@"; do
  if [ -x "test/suites/$suite.sh" ]; then
    "test/suites/$suite.sh" || code=1
    continue
  fi
  npx esbuild "test/suites/$suite.ts" --bundle --format=esm --platform=node --main-fields=module,main --target=node20 \
    --banner:js="$banner" --outfile="dist/suites/$suite.mjs" --log-level=warning && node "dist/suites/$suite.mjs" || code=1
done
exit $code
