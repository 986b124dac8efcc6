"""The data of the demo adapters: deterministic builders over hand-written material."""
