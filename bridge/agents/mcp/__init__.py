"""A client of MCP servers over streamable HTTP, for every protocol version of both eras.

Up to 2025-11-25 a session begins with a handshake; from 2026-07-28 on each request stands alone. The client
runs in the thread of its caller: it starts no event loop and no process.
"""
