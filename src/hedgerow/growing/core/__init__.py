"""Trees by leaves: the stages of growing one, and the arrays that they share."""
