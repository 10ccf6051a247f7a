"""First and second derivatives of the losses, compiled."""

SQUARED_ERROR = 0
LOGISTIC = 1
SOFTMAX = 2
