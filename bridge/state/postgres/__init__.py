"""The stores in one PostgreSQL database, shared by the workers of several machines.

Every statement runs in its own transaction or names its transaction, and no state is kept in a session: so a
PgBouncer in transaction mode may stand between the bridge and the server.
"""
