"""Fuzzing of what reads bytes from outside; `make fuzz` runs it, and `tests/fuzz/test_fuzz.py` its seeds alone."""
