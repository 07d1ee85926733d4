"""Programs that end without closing their store: `python -m tests.contract.leaving HOW PLACE DURABILITY`."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import refold
from refold.infrastructure import exits

CONTEXTS, EACH = 30, 10


def fail() -> NoReturn:
    """Raise what nobody handles."""
    raise KeyError("nobody handles it")


def interrupt() -> None:
    """Do as Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def kill(number: int) -> None:
    """Be ended by a signal."""
    os.kill(os.getpid(), number)
    time.sleep(60)


def refuse(place: str, chats: list[refold.ChatContext]) -> None:
    """Have what was queued on one of the contexts refused: somebody else was there first."""
    with refold.open(place) as elsewhere:
        chats[0].flush()
        elsewhere.chat("c0").add_message("user", "first")
    for number in range(7):
        chats[0].add_message("user", f"refused {number}")


def block(store: refold.Store, chats: list[refold.ChatContext]) -> None:
    """Let the disk, as it were, not answer any more, and queue something."""
    exits.EXIT_SECONDS_MAX = 0.2
    store.flush()
    is_blocked, log = threading.Event(), store.log

    def stand_still() -> None:
        is_blocked.set()
        threading.Event().wait()

    threading.Thread(target=log._committer.exclusively, args=(stand_still,), daemon=True).start()  # type: ignore[attr-defined]
    is_blocked.wait()
    for number in range(5):
        chats[1].add_message("user", f"late {number}")


def fork(store: refold.Store, chats: list[refold.ChatContext]) -> None:
    """Leave in a child, while the parent has not flushed."""
    child = os.fork()
    if not child:
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.close()


def main(how: str, place: str, durability: Any) -> None:
    """Write EACH events to each of CONTEXTS contexts, print how often that was acknowledged, and leave."""
    store = refold.open(place, durability=durability)
    chats = [store.chat(f"c{number}") for number in range(CONTEXTS)]
    for number in range(EACH):
        for chat in chats:
            chat.add_message("user", f"{number}")
    ways: dict[str, Callable[[], object]] = {
        "return": lambda: None,
        "sys.exit": sys.exit,
        "exception": fail,
        "interrupt": interrupt,
        "os._exit": lambda: os._exit(0),
        "SIGTERM": lambda: kill(signal.SIGTERM),
        "SIGKILL": lambda: kill(signal.SIGKILL),
        "close": store.close,
        "refused": lambda: refuse(place, chats),
        "blocked": lambda: block(store, chats),
        "fork": lambda: fork(store, chats),
    }
    if how == "dropped":
        # Contexts go on without their store.
        globals()["kept"] = chats
        return
    globals()["kept"] = (store, chats)
    ways[how]()


if __name__ == "__main__":
    main(*sys.argv[1:])
