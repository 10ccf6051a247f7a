"""CART: trees of the classic kind, with impurities and pruning."""
