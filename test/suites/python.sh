#!/usr/bin/env bash
# The Python package: test/suites/python.sh [PYTEST OPTION…]. Makes the wheel, installs it into an empty environment without
# a network, and runs python/tests there. Debian has pandas and pydantic; what is not installed, tests skip and say.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-/usr/bin/python3}
needed=(python3-venv python3-pytest python3-pandas python3-pydantic)
if ! dpkg -s "${needed[@]}" > /dev/null 2>&1; then
  apt-get install -y -qq --no-install-recommends "${needed[@]}" > /dev/null
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
"$PYTHON" python/build_wheel.py "$home/wheel" > /dev/null
"$PYTHON" -m venv --system-site-packages "$home/env"
"$home/env/bin/pip" install --quiet --no-index --disable-pip-version-check "$home"/wheel/fairwatch-*.whl
root=$PWD
cd "$home" # so that what is imported is what was installed
"$home/env/bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$root/python" "$root/python/tests" "$@" < /dev/null
