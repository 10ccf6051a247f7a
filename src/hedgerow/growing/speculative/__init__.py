"""Trees whose nodes are split many at once, in passes over all rows."""
