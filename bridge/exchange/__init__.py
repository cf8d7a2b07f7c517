"""Runs one request from its body to its last event; it connects all layers."""
