#!/usr/bin/env bash
# Makes a demo model, serves it on this machine, scores its golden requests and a small Criteo sample over gRPC, and stops.
# With --serve the server stays until Ctrl-C. What it makes, compiled programs included, is kept in .build/demo, so that a second
# run starts faster. RANKD_DEMO_LISTEN and RANKD_DEMO_HTTP are the addresses, where the usual ports are taken.
set -euo pipefail
cd "$(dirname "$0")/../.."
rankd=.build/bin/rankd
dir=.build/demo
listen=${RANKD_DEMO_LISTEN:-127.0.0.1:8500}
http=${RANKD_DEMO_HTTP:-127.0.0.1:8501}
stay=no
case "${1:-}" in
  --serve) stay=yes ;;
  "") ;;
  *) echo "demo: unknown argument $1, want none or --serve" >&2; exit 2 ;;
esac
mkdir -p "$dir"

say() { printf '\n== %s\n' "$*"; }

say "model"
if [ -f "$dir/model/manifest.json" ]; then
  echo "using $dir/model from an earlier run"
else
  rm -rf "$dir/model"
  "$rankd" model create-demo "$dir/model" --max-vocab 1000
fi

say "server on $listen, status page at http://$http/statusz"
# Buckets up to 256 rows: on a CPU a larger batch only takes longer, and each costs compile time at start.
"$rankd" serve --model "$dir/model" --listen "$listen" --http "$http" --run-dir "$dir/run" --instance demo \
  --executable-cache "$dir/executables" --frontends 2 --buckets 1,4,16,64,256 --log-format text >"$dir/server.log" 2>&1 &
server=$!
trap 'kill -TERM $server 2>/dev/null || true; wait $server 2>/dev/null || true' EXIT

began=$SECONDS
until "$rankd" inspect ready --run-dir "$dir/run" --instance demo >/dev/null 2>&1; do
  if ! kill -0 "$server" 2>/dev/null; then
    echo "demo: the server ended before it was ready; the end of $dir/server.log:" >&2
    tail -n 20 "$dir/server.log" >&2
    if grep -q "address already in use\|serves it already" "$dir/server.log"; then
      echo "demo: an address is taken: choose others, such as" >&2
      echo "  RANKD_DEMO_LISTEN=127.0.0.1:8600 RANKD_DEMO_HTTP=127.0.0.1:8601 make demo" >&2
    fi
    exit 1
  fi
  if [ $((SECONDS - began)) -gt 300 ]; then
    echo "demo: not ready after 300 s, see $dir/server.log" >&2
    exit 1
  fi
  sleep 0.2
done
sed -nE 's/.*msg="bucket ready".* rows=([0-9]+) seconds=([0-9.e-]+) source=([a-z]+).*/program for batches of \1 rows: from the \3 in \2 s/p' "$dir/server.log"
echo "ready"
"$rankd" inspect tables --run-dir "$dir/run" --instance demo | grep pages
"$rankd" inspect memory --run-dir "$dir/run" --instance demo

say "golden requests"
"$rankd" predict --model "$dir/model" --target "$listen" --batch 4 --tolerance 1e-5 >"$dir/golden.scores" 2>"$dir/golden.summary"
cat "$dir/golden.summary"

say "Criteo sample: deploy/demo/criteo_sample.tsv"
"$rankd" predict --model "$dir/model" --target "$listen" --batch 1 deploy/demo/criteo_sample.tsv >"$dir/criteo.scores" 2>"$dir/criteo.summary"
cat "$dir/criteo.summary"
echo "the first scores:"
head -n 3 "$dir/criteo.scores"

if [ "$stay" = yes ]; then
  say "serving until Ctrl-C; call it, from another terminal:"
  cat <<EOF
  $rankd predict --model $dir/model --target $listen deploy/demo/criteo_sample.tsv
  $rankd inspect ring --run-dir $dir/run --instance demo
  curl http://$http/statusz?format=json
  Python: from rankd_client import Client (see python/README.md), or any KServe v2 client on $listen
EOF
  trap 'kill -TERM $server 2>/dev/null || true' INT TERM
  wait "$server" || true
  wait "$server" 2>/dev/null || true
  exit 0
fi

say "stopping"
kill -TERM "$server"
trap - EXIT
if ! wait "$server"; then
  echo "demo: the server did not stop in order, see $dir/server.log" >&2
  exit 1
fi
requests=$(cat "$dir"/{golden,criteo}.summary | sed -nE 's/^rows [0-9]+  requests ([0-9]+) .*/\1/p' | awk '{n += $1} END {print n}')
delta=$(sed -nE 's/.*max \|delta\| ([^ ]+) .*/\1/p' "$dir/golden.summary")
if [ -z "$delta" ] || [ -z "$requests" ]; then
  echo "demo: no comparison in $dir/golden.summary" >&2
  exit 1
fi
echo "demo: ok, $requests requests, max|delta|=$delta"
