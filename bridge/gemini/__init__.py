"""Gemini's own values, the form in the middle. Pure: nothing here does IO or knows a client protocol."""
