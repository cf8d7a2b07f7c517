"""What experiments have shown: statistics and reports, from the rows of the usage store, without IO."""
