"""A Dask cluster of two workers, one of which is killed."""
