"""Fetches media from addresses that clients name, if the operator allows it."""
