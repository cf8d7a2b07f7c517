"""The doctor: checks the configuration, the installation and the running service, and suggests remedies."""
