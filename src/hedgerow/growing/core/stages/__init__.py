"""The stages of one tree: gradients, histograms, split search, partition, leaf values."""
