"""The suite that LangGraph publishes for checkpointers, in full, on every database."""

from collections.abc import AsyncIterator

from langgraph.checkpoint.conformance import checkpointer_test, validate

from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

CAPABILITIES = 8
TESTS = 81


async def test_the_published_suite_passes(store: Store) -> None:
    """All tests of all capabilities, none of them skipped."""

    @checkpointer_test(name="RefoldSaver")
    async def refold_saver() -> AsyncIterator[RefoldSaver]:
        yield RefoldSaver(store)

    report = await validate(refold_saver)

    failures = [failure for result in report.results.values() for failure in result.failures or ()]
    assert failures == []
    assert len(report.results) == CAPABILITIES
    assert sum(result.tests_passed for result in report.results.values()) == TESTS
    assert sum(result.tests_skipped for result in report.results.values()) == 0
    assert store.verify(processes=1).problems == ()
