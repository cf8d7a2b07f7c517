"""What outlives a request: small SQLite files, shared by all workers and kept over restarts."""
