"""The flight recorder: it keeps the life of single requests, where the operator wants that."""
