"""What the Inspector answers about the made-up histories of `refold demo`, to the letter: see tests/golden/told."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import refold
from refold.infrastructure import demo
from tests.support.written_down import UNTIL, assert_as_written, stop_clock

from .asking import LOCAL, Asked

QUESTIONS = """
api/contexts?limit=3&kind=chat
api/contexts?user=ada.brink
api/contexts?kind=pool,queue&limit=5
api/context?context=chat:heron-report-short
api/context?context=chat:refund-7Q2KLM
api/context?context=pool:policies
api/context?context=queue:desk-night
api/context?context=window:heron-draft
api/context?context=memory:user:ada.brink
api/context?context=run:mia.frey/late-orders/2/2
api/items?ref=chat:refund-7Q2KLM@41&ref=pool:policies@2&ref=queue:desk@15&ref=memory:user:ada.brink@3
api/items?ref=chat:lease-review@4&ref=chat:heron-report@74
api/view?context=chat:refund-7Q2KLM&version=20&tail=5
api/view?context=pool:policies&version=5
api/view?context=queue:desk&tail=2
api/view?context=window:heron-draft&version=12&tail=3
api/view?context=memory:user:ada.brink
api/left?context=chat:flaky-test&version=51
api/left?context=chat:refund-7Q2KLM
api/left?context=memory:user:ada.brink&version=8
api/diff?before=refund-7Q2KLM@17&after=refund-7Q2KLM@20
api/diff?before=refund-7Q2KLM@37&after=refund-7Q2KLM-softer
api/diff?before=policies@5&after=policies@13
api/diff?before=run:mia.frey/late-orders/2/2@4&after=run:mia.frey/late-orders/2/2
api/diff?before=user:ada.brink@2&after=user:ada.brink@5
api/why?context=chat:refund-7Q2KLM&item=call_ca1ba261bcc2
api/why?context=chat:flaky-test&item=nothing
api/audit?context=memory:user:ada.brink
api/audit?context=pool:policies-draft
api/audit?context=run:mia.frey/late-orders/2/2
api/pieces?event=chat:flaky-test@83
api/pins?context=chat:heron-report
api/pins?context=chat:refund-7Q2KLM
api/replay?context=chat:refund-7Q2KLM&policy=items:6
api/replay?context=chat:refund-7Q2KLM&policy=items:6&seen=17
api/preview?source=chat:refund-7Q2KLM-softer&target=chat:refund-7Q2KLM
api/preview?source=chat:heron-rivers&target=chat:heron-report&on_conflict=theirs&instructions=1
api/lineage?context=pool:policies
api/lineage?limit=9
api/graph?context=run:mia.frey/late-orders/2/2
api/graph?context=run:mia.frey/late-orders/0/0&version=14&attributes=description
api/node?name=Table(staff)
api/node?name=Table(orders)&attribute=description&round=1
api/nodes?type=Table&label=orders&limit=4
api/nodes?user=mia.frey&limit=2&cursor=State run:mia.frey/late-orders/2/2@0000000006
api/projection?name=catalogue&under=run:&limit=2
api/log?limit=5
api/log?row=512&limit=4
api/log?pos=512&limit=2
api/log?pos=512&context=chat:refund-7Q2KLM&limit=2
api/log?after=1050&limit=3
api/log?context=chat:refund-7Q2KLM&type=chat.call_&limit=9
api/log?actor=noor.vasquez&limit=3
api/log?q=voucher
api/event?event=memory:user:ada.brink@3
api/event?event=chat:heron-report@74
api/event?event=512
api/histogram?buckets=5
api/search?q=voucher
api/search?q=hotel&context=policies-draft&limit=1
api/usage?by=model
api/usage?by=day,agent
api/approvals
api/moments
api/resolve?context=chat:flaky-test&at=-3
api/resolve?context=chat:flaky-test&at=nowhere
api/resolve?context=chat:refund-7Q2KLM&at=call_240fbc24d96b
api/view?context=chat:nobody
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """The small histories behind a server."""
    place = str(tmp_path_factory.mktemp("told") / "demo.db")
    demo.fill_store(place, size="small", until=UNTIL)
    with refold.open(place) as store:
        yield Asked(store, write=True)


def lines(answer: Any) -> str:
    """Return JSON with a line for each field and each member of a list, and those of their fields."""
    if not isinstance(answer, dict):
        return rows(answer)
    return "".join(f"{name}: {rows(value)}\n" for name, value in answer.items())


def rows(value: Any) -> str:
    """Return JSON with a line for each member."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) < 200 or not isinstance(value, list | dict):
        return text
    members = value if isinstance(value, list) else ([name, one] for name, one in value.items())
    return "".join("\n  " + json.dumps(one, ensure_ascii=False) for one in members)


@pytest.mark.parametrize("address", QUESTIONS.strip().splitlines())
def test_what_is_asked(asked: Asked, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one store, an hour after its last event."""
    stop_clock(monkeypatch)

    answer = asked.client.get(f"{LOCAL}/{address}")

    name = re.sub(r"[^\w.@-]+", "_", address)
    assert_as_written(f"page/{name}", f"{address}\n{answer.status_code}\n{lines(answer.json())}\n")
