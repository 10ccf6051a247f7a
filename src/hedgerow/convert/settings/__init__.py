"""Parameters of other libraries by the names of ours, one file for each library."""
