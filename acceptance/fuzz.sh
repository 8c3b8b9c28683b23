#!/usr/bin/env bash
# Runs every fuzz target for the given time or count: acceptance/fuzz.sh 60s
#
# With a count, such as 5000x, coverage does not guide the inputs, because that pays off only with
# more inputs. The tests are then built without instrumentation, like other tests.
#
# Packages are built one at a time, because two concurrent builds would compile common dependencies
# twice. In the meantime, the targets of packages that are already built run, two packages at a time
# with one worker each.
set -euo pipefail
cd "$(dirname "$0")/.."
export AMOUNT=${1:-60s}
guided=(-fuzz .)
if [[ $AMOUNT == *x ]]; then guided=(); fi
FUZZ_BINARIES=$(mktemp -d)
FUZZ_CACHE=$(go env GOCACHE)/fuzz
FUZZ_FILES=$FUZZ_BINARIES/files
mkdir "$FUZZ_FILES"
if [[ -w /dev/shm ]]; then # an input that waits for the disk for more than 10 s counts as hung
  FUZZ_FILES=$(mktemp -d -p /dev/shm)
fi
trap 'rm -r "$FUZZ_BINARIES"; rm -rf "$FUZZ_FILES"' EXIT

export FUZZ_BINARIES FUZZ_CACHE FUZZ_FILES

# binary prints the path of a package's test binary.
binary() { echo "$FUZZ_BINARIES/${1//\//_}.test"; }

# build builds the tests of all packages with fuzz targets, and prints each package once it is built.
build() {
  local package
  for package in $(grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir=node_modules . | xargs -n1 dirname | sort -u); do
    go test -c -vet=off "${guided[@]}" -o "$(binary "$package")" "$package"
    echo "$package"
  done
}

# fuzz runs all of a package's targets and prints their output in one piece.
fuzz() {
  set -euo pipefail
  local binary target out import
  binary=$(binary "$1")
  import=$(go list "$1")
  cd "$1"
  for target in $(grep -hoE '^func Fuzz\w+' ./*_test.go | awk '{print $2}'); do
    if ! out=$(TMPDIR=$FUZZ_FILES "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$AMOUNT" -test.fuzzminimizetime 100x \
      -test.parallel 1 -test.fuzzcachedir "$FUZZ_CACHE/$import" 2>&1); then
      printf '== %s %s\n%s\nFAIL %s %s\n' "$1" "$target" "$out" "$1" "$target"
      exit 255 # makes xargs stop
    fi
    printf '== %s %s\n%s\n' "$1" "$target" "$(tail -n 1 <<<"$out")"
  done
}
export -f binary fuzz

build | xargs -P 2 -I {} bash -c 'fuzz {}'
