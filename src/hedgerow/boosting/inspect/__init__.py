"""What is asked of a model or of a fit beside its predictions."""
