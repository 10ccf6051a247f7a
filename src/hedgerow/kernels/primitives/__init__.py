"""Building blocks of other kernels: instructions, exact sums, random numbers, barriers."""
