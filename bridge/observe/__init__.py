"""What happened: the record of a request, the log it ends in, and the trace of its conversion."""
