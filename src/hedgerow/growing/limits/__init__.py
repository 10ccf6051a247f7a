"""What the user allows: constraints, forced splits, pruning."""
