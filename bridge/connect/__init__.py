"""Connects clients: the table of clients with their settings, and a probe that tests these settings."""
