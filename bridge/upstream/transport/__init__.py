"""How bytes travel to and from an upstream: connections, HTTP/1.1, server-sent events."""
