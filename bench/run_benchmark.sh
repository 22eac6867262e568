#!/usr/bin/env bash
# Compares rankd with other servers on this machine, and writes bench/results/<name>/REPORT.md. Everything else is in the command
# that this calls: its flags are described by bench/run_benchmark.sh --help.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || { echo "run_benchmark: python3 is missing: apt-get install python3 python3-venv" >&2; exit 1; }
make --no-print-directory -s build
exec .build/bin/rankd bench suite "$@"
