"""Single trees (CART): criteria, search and prediction."""
