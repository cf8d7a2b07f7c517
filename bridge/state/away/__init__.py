"""What a bridge does by itself while the database that it shares with others is away.

Used only with a database server. Limits are counted in a local ledger, and rows wait in local files until the
database takes them. Each module of this folder joins a store of `postgres/` with one of `sqlite/`, and knows
the interfaces of both only.
"""
