"""
A subscriber in a process of its own, for `count` events.

It prints the position of each event, acknowledges every fifth one, and ends after so many of them: what it printed
behind the last acknowledgement is given again to the next one.
"""

import refold

ACKNOWLEDGED_EVERY = 5


def main(place: str, name: str, count: str) -> None:
    """Follow a store."""
    with refold.open(place) as store, store.subscribe(name=name) as events:
        for number, event in enumerate(events, 1):
            print(event.position, flush=True)
            if number % ACKNOWLEDGED_EVERY == 0:
                events.ack()
                print("acknowledged", flush=True)
            if number == int(count):
                return
