"""What a request costs the bridge, beside a bare relay and other gateways: docs/PERFORMANCE.md"""
