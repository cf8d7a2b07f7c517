"""Authentication, what a key permits, and limits. No HTTP framework and no storage is known here."""
