"""Translates the configuration of other gateways. Only `gemini-bridge import` uses this package."""
