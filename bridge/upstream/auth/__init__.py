"""What an upstream wants to see of us: API keys, access tokens, Google's logins."""
