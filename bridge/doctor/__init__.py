"""The doctor: looks at a configuration, an installation and a running service, and says what to do."""
