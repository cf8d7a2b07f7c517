"""Data that outlives a request: interfaces, the values they exchange, and their implementations.

The modules of this folder hold interfaces without SQL; `sqlite/` implements them with one file for each
store. `stores.py` opens all of them. Authentication and the meaning of limits are in `bridge/access/`.
"""
