"""What other kernels are made of: instructions, exact sums, random numbers, barriers."""
