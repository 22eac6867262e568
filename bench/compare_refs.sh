#!/usr/bin/env bash
# Runs the Go benchmarks of some packages in another revision and in this tree, in turns, and compares them with benchstat.
#   bench/compare_refs.sh REF BENCHSTAT PACKAGE...
set -euo pipefail
cd "$(dirname "$0")/.."
ref=$1 benchstat=$2
shift 2
[ -n "$ref" ] || { echo "compare_refs: no revision: make bench-compare REF=main~1" >&2; exit 2; }
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/tree" "$ref"

# build NAME TREE PACKAGE...: a test binary a package, and a list of them with the folders that they run in.
build() {
  local name=$1 tree=$2 n=0
  shift 2
  (cd "$tree" && go list -f '{{.ImportPath}} {{.Dir}}' "$@") | while read -r pkg dir; do
    n=$((n + 1))
    (cd "$tree" && go test -c -o "$work/$name.$n" "$pkg" >/dev/null)
    [ ! -x "$work/$name.$n" ] || echo "$work/$name.$n $dir" >> "$work/$name.list" # a package without tests has none
  done
}
build old "$work/tree" "$@"
build new "$PWD" "$@"
for round in $(seq "${ROUNDS:-10}"); do
  echo "round $round of ${ROUNDS:-10}" >&2
  for name in old new; do
    while read -r binary dir; do
      (cd "$dir" && "$binary" -test.run='^$' -test.bench=. -test.benchtime="${BENCHTIME:-100ms}") >> "$work/$name.txt"
    done < "$work/$name.list"
  done
done
go run "$benchstat" old="$work/old.txt" new="$work/new.txt"
