"""The `edgelora` command."""
