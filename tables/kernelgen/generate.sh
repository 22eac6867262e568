#!/usr/bin/env bash
# Writes tables/kernel_amd64.s and its declarations anew.
set -euo pipefail
cd "$(dirname "$0")"
go run . -out ../kernel_tiles_amd64.s -stubs ../kernel_tiles_amd64.go -pkg tables
go tool gofumpt -w ../kernel_tiles_amd64.go 2>/dev/null || true
