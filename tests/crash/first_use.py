"""
A program in which threads use a store of every kind of context for the first time at once, while others are forked.

`python -m tests.crash.first_use PLACE SEED` prints what went wrong, then "done". Modules, models, types and connections
are made at their first use; here each is first used by several threads, and between any two steps of them.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401  # Python complains where this is first used in the middle of a fork
import faulthandler
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import refold
from refold.domain.errors import ConcurrencyError, StorageBusyError, StorageUnavailableError

THREADS, CHILDREN = 8, 4
USES, USES_OF_A_CHILD = 25, 10
CHILD_SECONDS_MAX = 60
# What two who edit one thing at once may be told, that a projection is rebuilt by somebody else, and that a fork waited
# too long for those who read.
EXPECTED = (ConcurrencyError, StorageBusyError, StorageUnavailableError)
Use = Callable[[refold.Store, str], object]


def awaited(work: Callable[[refold.Store, str], Coroutine[Any, Any, object]]) -> Use:
    """Return a use that runs a coroutine."""
    return lambda store, name: asyncio.run(work(store, name))


def gone(store: refold.Store, _: str) -> object:
    """Ask why an item left."""
    return store.why_gone("chat:a", store.chat("a").evicted_items()[0].item.id)


def worked(store: refold.Store, name: str) -> object:
    """Begin a run."""
    run = store.run("zoe", name, 1)
    return run.register_node("Table", "", [run.register_query("why?")], "reads", "orders", path="/t.csv")


READS: list[Use] = [
    lambda store, _: store.chat("a").items,
    lambda store, _: store.chat("a").tail(2),
    lambda store, _: store.chat("a").at(5).items,
    lambda store, _: store.chat("a").to_dict(),
    lambda store, _: list(store.chat("a").history()),
    lambda store, _: store.pool("p").to_dict(),
    lambda store, _: store.queue("q").to_dict(),
    lambda store, _: store.window("w").build(),
    awaited(lambda store, _: store.memory().get(scope="user:mia@example.org", key="lang")),
    lambda store, _: store.run("mia", "s1", 1).version,
    lambda store, _: store.run_graph("mia", "s1"),
    lambda store, _: store.run_nodes("mia", "s1"),
    lambda store, _: store.contexts(),
    lambda store, _: store.find_contexts(kind="chat"),
    lambda store, _: store.search("question"),
    lambda store, _: store.usage(),
    lambda store, _: store.audit("run:mia/s1/1/0"),
    lambda store, _: store.lineage(),
    lambda store, _: store.rollup(),
    lambda store, _: store.entries("pool:p"),
    lambda store, _: store.validity("a"),
    lambda store, _: store.pending_approvals(),
    lambda store, _: store.at(store.now()).contexts(),
    lambda store, _: store.projections(),
    lambda store, _: store.verify().problems,
    gone,
]
WRITES: list[Use] = [
    lambda store, name: store.chat(f"new {name}").add_message("user", "x"),
    lambda store, name: store.chat("a").add_message("user", name),
    lambda store, name: store.chat("a").fork(f"fork {name}").add_message("user", "y"),
    lambda store, _: store.chat("a").truncate(max_items=20),
    lambda store, _: store.chat("brief").restore(),
    awaited(lambda store, name: store.pool(f"pool {name}").add(refold.PoolItem({"n": name}, "", name))),
    awaited(lambda store, name: store.queue("q").append(refold.PoolItem({"n": name}, "x"))),
    lambda store, name: store.window("w").add(refold.BudgetItem(name, "v", "tool", 1)),
    worked,
    lambda store, name: store.name_moment(name),
    lambda store, _: store.rebuild("usage"),
]


def use(store: refold.Store, name: str, count: int) -> list[str]:
    """Use a store in an order of one's own, and return what went wrong."""
    wrong = []
    for one in random.Random(name).sample(READS + WRITES, count):
        try:
            one(store, name)
        except EXPECTED:
            pass
        except Exception as error:
            wrong.append(repr(error))
    return wrong


def use_as_child(store: refold.Store, name: str) -> NoReturn:
    """Use a store in a child that was just forked, and end."""
    faulthandler.dump_traceback_later(CHILD_SECONDS_MAX, exit=True)
    wrong = use(store, name, USES_OF_A_CHILD)
    for one in wrong:
        print(one, flush=True)
    os._exit(1 if wrong else 0)


def main(place: str, seed: int) -> None:
    """Open the store, and use it."""
    sys.setswitchinterval(1e-6)
    chance, begin, wrong = random.Random(seed), threading.Barrier(THREADS), list[str]()

    def work(number: int) -> None:
        begin.wait()
        wrong.extend(use(store, f"t{seed}-{number}", USES))

    with refold.open(place) as store:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        children = []
        for number in range(CHILDREN):
            time.sleep(chance.random() / 10)
            children.append(os.fork() or use_as_child(store, f"c{seed}-{number}"))
        wrong += [f"a child ended with {code}" for code in map(ended, children) if code]
        for thread in threads:
            thread.join()
        wrong += map(str, store.verify().problems)
    print(*wrong, "done", sep="\n")


def ended(child: int) -> int:
    """Wait for a child, and return how it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
