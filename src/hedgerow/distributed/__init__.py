"""Training on the workers of a Dask cluster: the same model as on one machine."""
