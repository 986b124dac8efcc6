"""An engine for the tests of the line protocol: `python -m tests.support.echo_peer [base]`."""

import os
import subprocess
import sys

from bench.peers.child import serve


class EchoPeer:
    """Tokens depend on the prompt and, unless it is told `base`, on the adapter."""

    def __init__(self, serves_base):
        self._serves_base = serves_base

    def load(self, **arguments):
        sys.stdout.write("a library prints where the answers would go\n")
        return {"version": "1", "arguments": arguments}

    def decode(self, *, prompts, adapters, new_tokens):
        adapters = [None if self._serves_base else adapter for adapter in adapters]
        return {
            "decode_s": 0.5,
            "total_s": 1.0,
            "token_ids": [
                [sum(prompt) + (0 if adapter is None else 1 + adapter)] * (new_tokens + 1)
                for prompt, adapter in zip(prompts, adapters, strict=True)
            ],
        }

    def prefill(self, *, prompt, adapter):
        if adapter is not None:
            raise ValueError("no adapter can be prefilled")
        return {"seconds": 0.25}

    def start_child(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return {"pid": child.pid}

    def die(self):
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os._exit(3)


if __name__ == "__main__":
    serve(EchoPeer("base" in sys.argv))
