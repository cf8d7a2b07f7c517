"""Attack tests: input from clients or upstreams that could make the bridge fail or slow."""
