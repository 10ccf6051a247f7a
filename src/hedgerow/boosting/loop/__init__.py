"""The training loop: one fit, its boosting rounds, and the training data they use."""
