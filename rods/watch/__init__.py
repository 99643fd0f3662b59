"""What a run is doing, for people: read from its directory alone, so that any shell sees the same."""
