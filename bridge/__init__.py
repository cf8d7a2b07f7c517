"""Gemini Bridge: the OpenAI and Anthropic APIs on Google Gemini."""

__version__ = "0.1.0"
