"""Gemini's values and rules: the common form between all protocols and upstreams. No IO, no client
protocol."""
