"""A worker in a process of its own: `python -m tests.projecting.worker PLACE NAME...`, until it is killed."""

import sys
import threading

import refold


def main(place: str, *names: str) -> None:
    """Keep some projections up to date."""
    with refold.open(place) as store:
        print("working", flush=True)
        store.run_projections(threading.Event(), names)


if __name__ == "__main__":
    main(*sys.argv[1:])
