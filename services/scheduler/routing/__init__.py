"""Chooses the adapter of a request that names none."""

import os

# Read when numpy is first imported. Matrices of this size lose by a second thread: on a busy
# machine each product would wait for it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
