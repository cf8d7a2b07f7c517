"""Fuzzing of all code that reads external bytes: `make fuzz`. The test suite runs only the seeds."""
