"""No case that `eventsourcing` ships is forgotten: a new one fails here until it runs, or is named as left out."""

import inspect
from types import FunctionType, ModuleType
from typing import Any
from unittest import TestCase

import pytest
from eventsourcing.tests import application, persistence, projection

from tests.eventsourcing import test_shipped_on_postgres, test_shipped_on_sqlite
from tests.eventsourcing.cases import CASES, Backend, cases_on

MODULES = (application, persistence, projection)
# Transcoders turn objects into JSON, without a recorder. DCB has another interface, which is not ours.
LEFT_OUT = {"TranscoderTestCase", "TaggedDecisionCountersProjectionTestCase"}


def shipped_tests(module: ModuleType) -> set[str]:
    """List the tests of a module's cases, the optional ones too."""
    classes = {kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, TestCase)}
    return {
        function.__qualname__
        for kind in classes
        if kind is not TestCase and kind.__name__ not in LEFT_OUT
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if name.startswith(("test", "optional_test"))
    }


def run_by(classes: list[type[TestCase]]) -> set[str]:
    """List which functions of the package run as tests of these classes, whatever they are called there."""
    return {
        function.__qualname__
        for kind in classes
        for name in dir(kind)
        if name.startswith("test") and isinstance(function := inspect.getattr_static(kind, name), FunctionType)
    }


def test_the_package_is_read_rightly() -> None:
    """Tests are found, among them the one whose name says that it need not run."""
    found = set.union(*map(shipped_tests, MODULES))

    assert len(found) >= 40
    assert "ApplicationRecorderTestCase.optional_test_insert_subscribe" in found


def test_what_is_left_out_exists() -> None:
    """A case that was renamed must not hide another."""
    shipped = {name for module in MODULES for name in vars(module)}

    assert shipped >= LEFT_OUT


@pytest.mark.parametrize(("backend", "id_type"), [*test_shipped_on_sqlite.BACKENDS, *test_shipped_on_postgres.BACKENDS])
def test_every_shipped_test_runs(backend: type[Backend], id_type: str) -> None:
    """On each of our databases, for each kind of ids."""
    run = run_by(list(cases_on(backend, id_type=id_type).values()))

    assert set.union(*map(shipped_tests, MODULES)) - run == set()


@pytest.mark.parametrize("module", [test_shipped_on_sqlite, test_shipped_on_postgres])
def test_our_classes_are_collected(module: Any) -> None:
    """Each case stands in the module of its database, as pytest looks for it."""
    collected = {name for name, kind in vars(module).items() if getattr(kind, "__test__", False)}

    assert len(collected) == len(CASES) * len(module.BACKENDS)
