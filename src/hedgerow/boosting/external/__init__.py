"""External memory: training rows in files or in chunks on disk."""
