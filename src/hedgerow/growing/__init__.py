"""Growing one tree: frontier, histograms, splits, partition, as one compiled recipe."""
