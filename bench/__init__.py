"""Measures what a request costs the bridge, a minimal relay and other gateways: docs/PERFORMANCE.md"""
