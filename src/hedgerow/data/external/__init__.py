"""Training rows in chunks, in memory or on disk, within a memory limit."""
