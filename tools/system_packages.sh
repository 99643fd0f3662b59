#!/usr/bin/env bash
# system_packages.sh NAME… — make sure that Debian packages are there: through apt when root, else say what is missing.
set -euo pipefail
missing=()
for name in "$@"; do
  dpkg -s "$name" >/dev/null 2>&1 || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; }; then
    echo "apt could not install: ${missing[*]}  (tests that need them say so and are skipped)"
  fi
else
  echo "the tests also use these Debian packages, which are not installed: ${missing[*]}"
  echo "  ask an administrator for: apt-get install ${missing[*]}  (tests that need them say so and are skipped)"
fi
