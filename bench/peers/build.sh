#!/bin/sh
# Makes a virtual environment for each peer the engine is compared with.
#
#   bench/peers/build.sh DIRECTORY [PEER...]
#
# Peers: llama.cpp (compiled here, several minutes), openvino, vllm; all three when none is named.
# (transformers + PEFT are in the project's own environment.) What is there already stays. A peer that cannot be had is named at the end; the others are made.
# PYTHON names the interpreter, default python3.
set -u

directory=$1
shift
[ $# -gt 0 ] || set -- llama.cpp openvino vllm onnxruntime
here=$(dirname "$0")
python=${PYTHON:-python3}
missing=

build() {
    environment=$directory/$1
    requirements=$here/requirements/$1.txt
    stamp=$environment/.ready
    if [ ! -e "$requirements" ]; then
        echo "bench-peers: there is no peer '$1': use llama.cpp, openvino, vllm or onnxruntime" >&2
        return 1
    fi
    if cmp -s "$requirements" "$stamp"; then
        echo "bench-peers: $1 is ready"
        return 0
    fi
    echo "bench-peers: making $environment, see $environment.log"
    rm -f "$stamp"
    {
        "$python" -m venv --clear "$environment" || "$python" -m virtualenv --clear "$environment"
    } >"$environment.log" 2>&1 || return 1
    # Every package is pinned in the file, so that nothing is fetched that a CPU does not need.
    CMAKE_ARGS=-DGGML_NATIVE=ON "$environment/bin/python" -m pip install \
        --disable-pip-version-check --no-input --no-deps -r "$requirements" \
        >>"$environment.log" 2>&1 || return 1
    cp "$requirements" "$stamp"
}

mkdir -p "$directory"
for peer in "$@"; do
    if ! build "$peer"; then
        echo "bench-peers: $peer could not be made: $directory/$peer.log" >&2
        missing="$missing $peer"
    fi
done
[ -z "$missing" ] || echo "bench-peers: without$missing; a comparison skips what is missing" >&2
