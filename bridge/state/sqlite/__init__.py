"""The stores in SQLite files: one file for each store, shared by the workers of one machine."""
