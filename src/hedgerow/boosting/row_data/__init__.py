"""What is known of each row besides its features: targets, weights, queries, groups, offsets."""
