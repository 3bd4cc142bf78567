#!/usr/bin/env bash
# The signatures of fw against those of botocore, for random requests.
#   test/by-hand/store-signatures.sh PYTHON [COUNT] [SEED]      PYTHON has boto3 installed
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npx --no-install esbuild test/by-hand/store-signatures.ts --bundle --format=esm --platform=node --log-level=warning --outfile="$work/sign.mjs"
"$1" test/by-hand/store-signatures.py "$work/sign.mjs" "${@:2}"
