"""How the ranks of a training talk: one protocol, several carriers."""
