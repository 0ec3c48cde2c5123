"""What the three stores share: the interface for callers, and the verbs that are the same on every database."""
