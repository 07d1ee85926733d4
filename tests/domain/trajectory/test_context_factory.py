"""The seed's factory of contexts (SPEC D1)."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import refold
from refold.domain.context.transaction import transaction
from refold.domain.errors import InvalidInputError, StorageUnavailableError
from refold.domain.trajectory import factory
from refold.domain.trajectory.factory import RunFactory
from refold.infrastructure.seed_contexts import HeldContexts
from refold.trajectory import Context, ContextFactory, ContextInitOptions, Run, build_context_init_options

from ...contract.agents import store_on
from ...support.effort import CountedLock
from ..fakes import DisturbedLog

KEY = ("mia", "s", 0)


@pytest.fixture(autouse=True)
def _nothing_held() -> Iterator[None]:
    """Each test begins and ends with a factory that holds nothing."""
    ContextFactory.close()
    yield
    ContextFactory.close()


@pytest.fixture
def kept(tmp_path: Path) -> ContextInitOptions:
    """Options that name a database."""
    return ContextInitOptions(database_url=str(tmp_path / "runs.db"))


def test_one_context_for_each_round_and_agent() -> None:
    """D1.1, D1.3: the same tuple is the same object, and any other another one."""
    main = ContextFactory.get_context(*KEY, sub_id=0)
    others = [ContextFactory.get_context(*key) for key in (("mia", "s", 0, 1), ("mia", "s", 1, 0), ("bob", "s", 0, 0))]

    assert isinstance(main, Context)
    assert issubclass(Context, Run)
    assert ContextFactory.get_context("mia", "s", 0, 0) is main
    assert len({id(one) for one in (main, *others)}) == 4


@pytest.mark.parametrize("is_kept", [True, False])
def test_threads_get_one_context(kept: ContextInitOptions, is_kept: bool) -> None:
    """D1.2: sixteen threads that ask at once get one object."""
    start = Barrier(16)

    def ask(_: int) -> Run:
        start.wait()
        return ContextFactory.get_context(*KEY, 0, kept if is_kept else None)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(16)))

    assert {id(one) for one in found} == {id(found[0])}


def test_contexts_stay_until_they_are_let_go() -> None:
    """D1.8: nobody needs to hold one; what it has is still there."""
    ContextFactory.get_context(*KEY, 0).register_query("q")
    gc.collect()

    assert ContextFactory.get_context(*KEY, 0).initial == "Query(query00000)"


def test_a_sub_agent_needs_a_main_agent() -> None:
    """D1.4: the seed's error, a ValueError; afterwards nothing is held."""
    with pytest.raises(ValueError, match=r"^Cannot initialize Context class in main agent without sub_id\.$"):
        ContextFactory.get_context(*KEY)

    assert ContextFactory.release_context("mia", "s") == 0


def test_automatic_numbers_are_free() -> None:
    """D1.5, repaired: a number that is taken is passed over."""
    ContextFactory.get_context(*KEY, 0)
    ContextFactory.get_context(*KEY, 2)

    assert [ContextFactory.get_context(*KEY).sub_id for _ in range(3)] == [1, 3, 4]


def test_a_sub_agent_by_its_number_goes_where_its_main_agent_goes(kept: ContextInitOptions) -> None:
    """D1.6: without options it has those of its main agent, also when it was released before."""
    options = ContextInitOptions(kept.database_url, ("load",))
    main = ContextFactory.get_context(*KEY, 0, options)
    sub = ContextFactory.get_context(*KEY, 3)
    sub.register_query("q")
    ContextFactory.release_context(*KEY, 3)
    elsewhere = ContextInitOptions("elsewhere.db")

    again = ContextFactory.get_context(*KEY, 3)
    own = ContextFactory.get_context(*KEY, 4, ContextInitOptions(pre_workflow=("own",)))

    assert again.initial == "Query(query00000)"
    assert {one._attachment.log for one in (main, sub, again, own)} == {main._attachment.log}
    assert [one.pre_workflow for one in (sub, again, own)] == [("load",), ("load",), ("own",)]
    with pytest.raises(InvalidInputError, match="was made with another database"):
        ContextFactory.get_context(*KEY, 5, elsewhere)


def test_factories_on_one_file_never_collide(kept: ContextInitOptions) -> None:
    """Two that know nothing of each other, four threads each: every sub-agent is another one."""
    factories = [HeldContexts(), HeldContexts()]
    for one in factories:
        one.get_context(*KEY, 0, kept)

    def ask(number: int) -> list[int]:
        return [factories[number % 2].get_context(*KEY, options=kept).sub_id for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        found = [sub for subs in pool.map(ask, range(8)) for sub in subs]
    for one in factories:
        one.close()

    assert sorted(found) == list(range(1, 41))


def test_few_numbers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with very many rounds keeps those of the last ones; the next number of another is found in the log."""
    monkeypatch.setattr(factory, "NUMBERS_KEPT", 2)
    runs = RunFactory()
    mains = [runs.run("mia", f"s{number}") for number in range(3)]
    subs = [runs.run("mia", mains[number].session_id, sub_id=None) for number in (0, 1, 0, 2)]

    assert [key.session_id for key in runs._subs] == ["s0", "s2"]
    assert [one.sub_id for one in subs] == [1, 1, 2, 1]
    assert [runs.run("mia", f"s{number}", sub_id=None).sub_id for number in range(3)] == [3, 2, 2]


def test_each_call_takes_the_lock() -> None:
    """Any number of threads may ask."""
    held, runs = HeldContexts(), RunFactory()
    all_runs, all_held = CountedLock(), CountedLock()
    runs._lock, held._lock = all_runs, all_held  # type: ignore[assignment]
    run = runs.run(*KEY)
    steps: list[Callable[[], object]] = [
        lambda: runs.keep(run),
        lambda: runs.release(),
        lambda: held.get_context(*KEY, 0),
        lambda: held.release_context("mia", "s"),
        lambda: held.clear_context(),
        # It clears first.
        lambda: held.close(),
    ]
    taken = [(all_runs.taken, all_held.taken)]
    for step in steps:
        step()
        taken.append((all_runs.taken, all_held.taken))

    assert taken == [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3), (3, 5)]


def test_clearing_begins_anew() -> None:
    """D1.7: a detached context that was dropped is gone, and its number is free."""
    before = ContextFactory.get_context(*KEY, 0)
    before.register_query("q")
    ContextFactory.get_context(*KEY)

    ContextFactory.clear_context()

    after = ContextFactory.get_context(*KEY, 0)
    assert (after is before, after.initial) == (False, None)
    assert ContextFactory.get_context(*KEY).sub_id == 1


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (("mia", "s"), [("mia", "t", 0, 0)]),
        (("mia", "s", 0), [("mia", "s", 1, 0), ("mia", "t", 0, 0)]),
        (("mia", "s", 0, 1), [("mia", "s", 0, 0), ("mia", "s", 1, 0), ("mia", "t", 0, 0)]),
        (("bob", "s"), [("mia", "s", 0, 0), ("mia", "s", 0, 1), ("mia", "s", 1, 0), ("mia", "t", 0, 0)]),
    ],
)
@pytest.mark.parametrize("is_kept", [True, False])
def test_releasing(kept: ContextInitOptions, wanted: Any, left: list[Any], is_kept: bool) -> None:
    """D1.8: those that are named go, also where somebody holds them still, and the others stay."""
    keys = [("mia", "s", 0, 0), ("mia", "s", 0, 1), ("mia", "s", 1, 0), ("mia", "t", 0, 0)]
    options = kept if is_kept else None
    before = {key: ContextFactory.get_context(*key, options) for key in keys}

    released = ContextFactory.release_context(*wanted)

    assert released == len(keys) - len(left)
    assert [key for key in keys if ContextFactory.get_context(*key, options) is before[key]] == left


def test_a_database_keeps_what_was_released(kept: ContextInitOptions) -> None:
    """It is the same record in another object, and in another process's store."""
    before = ContextFactory.get_context(*KEY, 0, kept)
    before.register_query("q")
    ContextFactory.clear_context()

    after = ContextFactory.get_context(*KEY, 0, kept)

    assert (after is before, after.initial) == (False, "Query(query00000)")
    with refold.open(str(kept.database_url)) as store:
        assert store.run(*KEY, create=False).initial == after.initial


@pytest.mark.parametrize("is_kept", [True, False])
def test_rounds_of_a_session_know_each_other(kept: ContextInitOptions, is_kept: bool) -> None:
    """With a database or without, a new round goes back over the earlier ones (SPEC D7.13)."""
    options = kept if is_kept else None
    ContextFactory.get_context(*KEY, 0, options).register_query("q")
    second = ContextFactory.get_context("mia", "s", 1, 0, options)
    second.register_query("again")

    assert second.session_root == "Query(query00000)"
    assert ContextFactory.get_context("mia", "t", 1, 0, options).nodes() == []


def test_a_sub_agent_lives_where_its_main_agent_does(kept: ContextInitOptions) -> None:
    """Without options, and with some that name no database."""
    ContextFactory.get_context(*KEY, 0, kept)

    subs = [ContextFactory.get_context(*KEY), ContextFactory.get_context(*KEY, None, ContextInitOptions())]

    assert [(sub.is_detached, sub.sub_id) for sub in subs] == [(False, 1), (False, 2)]


def test_options_of_a_second_call_do_not_count(kept: ContextInitOptions) -> None:
    """D1.6: as in the seed; but another database is refused, since what is recorded would not get there."""
    first = ContextFactory.get_context(*KEY, 0, ContextInitOptions(pre_workflow=("one",)))

    assert ContextFactory.get_context(*KEY, 0, ContextInitOptions(pre_workflow=("two",))) is first
    assert first.pre_workflow == ("one",)
    with pytest.raises(InvalidInputError, match=r"was made with another database, or with none: release it first"):
        ContextFactory.get_context(*KEY, 0, kept)
    with pytest.raises(InvalidInputError) as refused:
        ContextFactory.get_context(*KEY, 0, ContextInitOptions("postgresql://mia:secret@host/name"))
    assert "secret" not in str(refused.value)


def test_workflows_fill_the_queues() -> None:
    """D11.2: `init_todolist()` takes what the options say; a step that was taken changes nothing of them (D11.7)."""
    options = ContextInitOptions(pre_workflow=("load", {"name": "look", "params": {"a": 1}}), post_workflow=("save",))
    run = ContextFactory.get_context(*KEY, 0, options)

    assert run.init_todolist() == []
    assert run.steps("pre") == [{"name": "load", "params": {}}, {"name": "look", "params": {"a": 1}}]
    assert run.pop_todo("post") == {"name": "save", "params": {}}
    run.init_todolist(post_workflow=["other"])
    assert [len(run.steps("pre")), *run.steps("post")] == [2, {"name": "other", "params": {}}]


def test_no_workflow_is_an_error() -> None:
    """D11.2: where neither was configured nor given."""
    with pytest.raises(RuntimeError, match="requires pre_workflow or post_workflow definitions"):
        ContextFactory.get_context(*KEY, 0).init_todolist()


class Manager:
    """A configuration that knows paths with dots, like the seed's."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under a path."""
        return self._values.get(key.replace(".", "_"), default)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({}, ContextInitOptions()),
        ({"CONTEXT": None, "PRE_WORKFLOW": None}, ContextInitOptions()),
        ({"CONTEXT": {"database": {"url": "a.db"}}}, ContextInitOptions("a.db")),
        (
            {"PRE_WORKFLOW": ["a", {"name": "b"}], "POST_WORKFLOW": ["c"]},
            ContextInitOptions(None, ("a", {"name": "b"}), ("c",)),
        ),
        (Manager(CONTEXT_database_url="a.db", PRE_WORKFLOW=["a"]), ContextInitOptions("a.db", ("a",))),
    ],
)
def test_options_from_a_configuration(config: Any, options: ContextInitOptions) -> None:
    """D1.9: nested mappings, or a manager that knows paths."""
    assert build_context_init_options(config) == options


@pytest.mark.parametrize(
    ("url", "error"),
    [("mysql://x/y", InvalidInputError), ("/nowhere/at/all/runs.db", StorageUnavailableError)],
)
def test_databases_that_cannot_be(url: str, error: type[Exception]) -> None:
    """D13.8: it is said at once, and nothing is held."""
    with pytest.raises(error):
        ContextFactory.get_context(*KEY, 0, ContextInitOptions(url))

    assert ContextFactory.release_context("mia", "s") == 0


def test_a_context_of_a_transaction_that_failed(kept: ContextInitOptions) -> None:
    """What was begun in it is not there; who asks again gets one that can be used, with the same options."""
    options = ContextInitOptions(kept.database_url, ("load",))
    log = ContextFactory.get_context("mia", "s", 5, 0, options)._attachment.log
    begun = []

    def begin_and_fail() -> None:
        with transaction(log):
            begun.append(ContextFactory.get_context(*KEY, 0, options))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        begin_and_fail()

    again = ContextFactory.get_context(*KEY, 0, options)

    assert again is not begun[0]
    assert again.pre_workflow == ("load",)
    assert again.register_query("q") == "Query(query00000)"


def test_a_session_is_held_as_long_as_one_of_its_contexts() -> None:
    """One that could not be made takes nothing along that is held, and leaves nothing behind that is not."""
    held = HeldContexts()
    first = held.get_context(*KEY, 0)
    for session in ("s", "other"):
        with pytest.raises(InvalidInputError, match="without sub_id"):
            held.get_context("mia", session, 7)

    assert held._sessions.keys() == {("mia", "s")}
    assert held.get_context(*KEY, 0) is first


def test_a_round_that_another_process_begins_at_the_same_moment() -> None:
    """It is opened as the other one created it, and goes back over the round before it once."""
    log = DisturbedLog()
    store_on(log).run("mia", "s").register_query("why?")
    log.disturb, log.times = lambda: store_on(log).run("mia", "s", 1), 1

    run = store_on(log).run("mia", "s", 1)
    events = [type(one.event).__name__ for one in log.read(run.stream_id)]

    assert (log.times, events.count("RunOpened"), run.version) == (0, 1, len(events))
    assert run.graph() == store_on(log).run("mia", "s", 1).graph()
