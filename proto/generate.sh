#!/bin/sh
# Generates the Go code of the .proto files into frontend/wire. Run it from anywhere in a checkout; it needs go, python3
# with venv, and a module proxy and a Python index. Tools are pinned and kept under .build/, so the same input gives the
# same bytes.
set -eu

protoc_gen_go=v1.36.12
protoc_gen_go_grpc=v1.6.0
grpcio_tools=1.85.1 # brings protoc

cd "$(dirname "$0")/.."
build=$PWD/.build/proto
bin=$build/bin-$protoc_gen_go-$protoc_gen_go_grpc
venv=$build/venv-$grpcio_tools

if [ ! -x "$bin/protoc-gen-go-grpc" ]; then
	GOBIN=$bin go install "google.golang.org/protobuf/cmd/protoc-gen-go@$protoc_gen_go"
	GOBIN=$bin go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$protoc_gen_go_grpc"
fi
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import grpc_tools' 2>/dev/null; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet "grpcio-tools==$grpcio_tools"
fi

PATH=$bin:$PATH "$venv/bin/python" -m grpc_tools.protoc --proto_path=proto \
	--go_out=. --go_opt=module=rankd \
	--go-grpc_out=. --go-grpc_opt=module=rankd \
	rankd/v1/prediction.proto inference/grpc_service.proto
