"""The operator's dashboard: what the node does, over the last minutes, in a browser."""
