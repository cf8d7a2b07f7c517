"""Google's error envelope to our errors: the one place that reads it, whichever way it arrived."""
