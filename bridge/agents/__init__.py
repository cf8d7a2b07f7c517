"""Tools that the bridge runs itself, and agents that use them. Imported only if one of them is configured."""
