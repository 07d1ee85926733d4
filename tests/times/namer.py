"""A process that writes to a store and names each moment; started by test_moments.py."""

import refold


def main(place: str, who: str, count: int) -> None:
    """Write and name as often, and say each name with its moment."""
    with refold.open(place) as store, refold.acting(actor=who):
        chat = store.chat(who)
        for number in range(count):
            chat.add_message("user", f"text {number}")
            print(f"{who}-{number}", store.name_moment(f"{who}-{number}"), chat.version, flush=True)
