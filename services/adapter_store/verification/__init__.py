"""Reading a stranger's adapter: in a sandboxed process, proven, measured, certified."""
