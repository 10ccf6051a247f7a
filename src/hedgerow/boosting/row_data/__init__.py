"""Per-row inputs besides the features: targets, weights, queries, groups, offsets."""
