#!/usr/bin/env bash
# Runs every fuzz target for the given time: acceptance/fuzz.sh 60s
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r package; do
  grep -hoE '^func (Fuzz\w+)' "$package"/*_test.go | awk '{print $2}' | while read -r target; do
    echo "== $package $target"
    go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${1:-60s}" -fuzzminimizetime 100x
  done
done
