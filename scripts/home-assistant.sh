#!/usr/bin/env bash
# Makes an environment with a real Home Assistant and what its Ollama integration needs; nothing is
# done where it is there. `scripts/home-assistant.sh DIRECTORY`; PYTHON313 names the interpreter.
set -euo pipefail

release=2025.4.4  # the newest that Python 3.13.0 may install
directory=$1
stamp=$directory/.ready-$release
[[ ! -e $stamp ]] || exit 0

python=
for candidate in "${PYTHON313:-}" python3.13 "$HOME"/.pyenv/versions/3.13.*/bin/python3.13; do
    if [[ -n $candidate ]] && "$candidate" -c '' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [[ -z $python ]]; then
    echo "home-assistant: there is no Python 3.13: set PYTHON313=/path/to/python3.13" >&2
    exit 1
fi

rm -rf "$directory"
"$python" -m venv "$directory"
"$directory/bin/pip" install --quiet --disable-pip-version-check "homeassistant==$release"
# What Home Assistant would install by itself when the integration is added.
wanted=$("$directory/bin/python" - <<'EOF'
import json
from pathlib import Path

import homeassistant

root = Path(homeassistant.__file__).parent
for name in ("ollama", "conversation", "assist_pipeline", "tts", "ffmpeg"):
    manifest = json.loads((root / "components" / name / "manifest.json").read_text())
    print(*manifest.get("requirements", ()), sep="\n")
EOF
)
constraints=$("$directory/bin/python" -c 'import homeassistant as home; print(home.__path__[0])')
# shellcheck disable=SC2086  # a list of words
"$directory/bin/pip" install --quiet --disable-pip-version-check \
    --constraint "$constraints/package_constraints.txt" $wanted
touch "$stamp"
echo "home-assistant: $release is ready"
