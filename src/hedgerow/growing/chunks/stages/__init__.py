"""What all threads of a pass over chunks do: compiled stages, and the team that runs them."""
