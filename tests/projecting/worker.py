"""A worker in a process of its own, until it is killed."""

import threading

import refold


def main(place: str, *names: str) -> None:
    """Keep some projections up to date."""
    with refold.open(place) as store:
        print("working", flush=True)
        store.run_projections(threading.Event(), names)
