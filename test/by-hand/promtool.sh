#!/usr/bin/env bash
# The page of --metrics under promtool, which Debian has in a package too large for every run of the tests:
#   test/by-hand/promtool.sh
# Takes promtool from the PATH, else out of that package, which it downloads and does not install. Needs `make` to have run.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if ! command -v promtool > /dev/null; then
  (cd "$out" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb package)
  PATH="$out/package/usr/bin:$PATH"
fi
cd "$here" && npx vitest run test/progress/metrics.test.ts
