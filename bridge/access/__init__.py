"""Who may come in, for what, and how much. No HTTP framework is known here."""
