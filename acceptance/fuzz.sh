#!/usr/bin/env bash
# Runs every fuzz target for the given time or count: acceptance/fuzz.sh 60s
#
# The tests of a package are built once, and two packages run at a time with one worker each:
# building and starting a target uses one core at most.
set -euo pipefail
cd "$(dirname "$0")/.."
export AMOUNT=${1:-60s}
FUZZ_BINARIES=$(mktemp -d)
FUZZ_CACHE=$(go env GOCACHE)/fuzz
export FUZZ_BINARIES FUZZ_CACHE
trap 'rm -r "$FUZZ_BINARIES"' EXIT

# fuzz_package runs all targets of a package, and prints what they printed in one piece.
fuzz_package() {
  set -euo pipefail
  local binary="$FUZZ_BINARIES/${1//\//_}.test" out target import
  import=$(go list "$1")
  go test -c -fuzz . -o "$binary" "$1"
  cd "$1"
  for target in $(grep -hoE '^func Fuzz\w+' ./*_test.go | awk '{print $2}'); do
    if ! out=$("$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$AMOUNT" -test.fuzzminimizetime 100x \
      -test.parallel 1 -test.fuzzcachedir "$FUZZ_CACHE/$import" 2>&1); then
      printf '== %s %s\n%s\n' "$1" "$target" "$out"
      exit 255 # which makes xargs stop
    fi
    printf '== %s %s\n%s\n' "$1" "$target" "$(tail -n 1 <<<"$out")"
  done
}
export -f fuzz_package

grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | xargs -P 2 -I {} bash -c 'fuzz_package {}'
