"""Setup of a fit: its options and loss, the strategy of its trees, and the first round."""
