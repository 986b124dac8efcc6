"""Which adapters will probably be wanted soon, and which to move closer ahead of use.

Everything but `habit_store` and `warm_up` is pure: no clock, no I/O. See docs/warmup.md.
"""
