"""Chooses the adapter of a request that names none."""
