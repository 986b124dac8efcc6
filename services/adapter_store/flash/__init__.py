"""The flash tier: the store's directory, its blobs, and what leaves when it is full."""
