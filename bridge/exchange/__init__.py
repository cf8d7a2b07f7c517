"""One request from its body to its last event: where the layers meet."""
