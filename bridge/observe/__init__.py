"""Observability: the record of a request, and its observers: log, metrics, usage and traces."""
