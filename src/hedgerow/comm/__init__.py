"""Communication between the ranks of a training: one protocol, several transports."""
