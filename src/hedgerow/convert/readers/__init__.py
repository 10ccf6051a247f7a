"""Models of other libraries as ours, one file for each format."""
