"""The training loop of boosting: one fit, its rounds, and what they need of the rows."""
