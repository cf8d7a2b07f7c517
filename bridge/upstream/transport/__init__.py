"""Connections to an upstream, HTTP/1.1, and server-sent events."""
