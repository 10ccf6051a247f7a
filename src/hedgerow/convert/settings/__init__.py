"""Translation of other libraries' parameters, one file for each library."""
