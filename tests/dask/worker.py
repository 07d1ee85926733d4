"""A Dask worker with pages of a few events: `python -m tests.dask.worker` and the arguments of `dask worker`."""

from distributed.cli.dask_worker import main

from ..projecting.small_pages import with_small_pages

if __name__ == "__main__":
    with_small_pages()
    main()
