"""The search of the best split in the histogram of a node."""
