"""Credentials for upstreams: API keys, access tokens, Google logins."""
