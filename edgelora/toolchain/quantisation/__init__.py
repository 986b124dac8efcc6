"""Calibrated mixed-precision rounding of a decoder's matrices (docs/quantisation.md)."""
