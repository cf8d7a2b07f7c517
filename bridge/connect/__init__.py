"""How a client is connected: one table of clients, what each must be told, and a probe that proves it."""
