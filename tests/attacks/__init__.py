"""Standing attacks: what a client or an upstream may send to make the bridge fail or take long."""
