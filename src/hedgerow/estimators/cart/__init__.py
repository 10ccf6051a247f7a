"""Single trees (CART)."""
