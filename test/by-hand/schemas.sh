#!/usr/bin/env bash
# 200 and more schemas that are made to hurt, through every verb that takes one, each as a process: time and memory, the
# worst ten. See schemas.ts for EVERY=… and VERBS=…. An hour for all of them; needs GNU time.
set -euo pipefail
cd "$(dirname "$0")/../.."
script=$(mktemp -d)
trap 'rm -rf "$script"' EXIT
npx --no-install esbuild test/by-hand/schemas.ts --bundle --platform=node --format=esm --outfile="$script/schemas.mjs" --log-level=error
# some nest 5,000 levels, which take more stack to write than a process has by default
node --stack-size=4000 "$script/schemas.mjs"
