#!/usr/bin/env bash
# fw against a store of S3 that others wrote: every operation, and 1 GB killed at every part (some minutes, 4 GB of disk).
#   test/by-hand/stores.sh                  with s3rver, installed by npm into a temporary folder
#   AWS_ENDPOINT_URL=http://127.0.0.1:5000 AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… BUCKET=try test/by-hand/stores.sh
# moto (pip install 'moto[server]', python3-moto of Debian sid): python3 -m moto.server -p 5000. ONLY=calls or ONLY=kills.
# Known of moto 5.2: it checks signatures with INITIAL_NO_AUTH_ACTION_COUNT=N alone (N calls that make a bucket and keys), and answers
# those without an Authorization header with 500 then, signed links too.
# OpenStack Swift 2.30 (Debian's swift-* packages) with tempauth and s3api on loopback passes all of it.
# Known of s3rver 3.7.1: it lists no uploads (501), refuses keys with //, and its second page of a list is a 500.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT
if [ -z "${AWS_ENDPOINT_URL:-}" ]; then
  npm install --silent --no-audit --no-fund --prefix "$work" s3rver@3.7.1
  node "$work/node_modules/.bin/s3rver" -d "$work/data" -p 0 > "$work/log" 2>&1 &
  until grep -q listening "$work/log"; do sleep 0.2; done
  AWS_ENDPOINT_URL="http://127.0.0.1:$(grep -o '[0-9]*$' "$work/log" | head -1)"
  export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER
fi
for part in stores store-kills; do
  npx --no-install esbuild "test/by-hand/$part.ts" --bundle --format=esm --platform=node --log-level=warning --outfile="$work/$part.mjs"
done
code=0
[ "${ONLY:-calls}" != calls ] || node "$work/stores.mjs" || code=1
[ "${ONLY:-kills}" != kills ] || node "$work/store-kills.mjs" || code=1
exit "$code"
