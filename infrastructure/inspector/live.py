"""
News of a store for the page: a stream of server-sent events, one at most every tenth of a second.

The id of an event is a moment of the log. A browser that connects again sends the last one, and gets the rest. Events
of jobs have no id, because each connection begins with the present state of all jobs. Events about a first question,
which may fold millions of events for seconds, have none either.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...domain.clock import exact
from ...domain.concurrency.threads import in_waiting_thread
from ...domain.errors import InvalidInputError, LogWentBackError, NotAllowedError, RefoldError
from ...domain.log.ports import LiveLog
from ...domain.positions import Moment
from ..request_guard import refused
from .jobs import Jobs

PAUSE_SECONDS = 0.1
# A line after so many quiet seconds shows each side that the other one is still there.
BEAT_SECONDS = 15.0
WAIT_SECONDS = 0.25
PAGE_EVENTS = 2_048
# After a longer absence the page asks for everything anew.
MISSED_MAX = 100_000
RETRY_MILLISECONDS = 1_000
# Returns plain data with its texts as they may be shown.
Hide = Callable[[Any], Any]


async def news(jobs: Jobs, hide: Hide, request: Request) -> Response:
    """Return the endless answer: which contexts got which versions, since the moment that the browser saw last."""
    log = jobs.store.log
    try:
        seen = request.headers.get("last-event-id") or request.query_params.get("after")
        after = Moment.parse(seen) if seen else await asyncio.to_thread(log.now)
    except InvalidInputError as error:
        return refused(400, hide(str(error)), type(error).__name__)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=headers)
    return StreamingResponse(_lines(jobs, hide, after, request), media_type="text/event-stream", headers=headers)


async def _lines(jobs: Jobs, hide: Hide, after: Moment, request: Request) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MILLISECONDS}\n: hello\n\n"
    quiet, seen, folding = 0.0, 0, (0, 0)
    sees_jobs = await asyncio.to_thread(_sees, jobs)
    while not await request.is_disconnected():
        if jobs.folding is not None and jobs.folding != folding:
            folding = done, total = jobs.folding
            # The last step is no news, so that a question about a few new events reports nothing.
            if done < total:
                yield f"event: folding\ndata: {json.dumps({'done': done, 'total': total})}\n\n"
        seen, changed = jobs.since(seen)
        for job in changed if sees_jobs else ():
            yield f"event: job\ndata: {json.dumps(hide(job))}\n\n"
        try:
            now, heads, count, last = await in_waiting_thread(partial(_read_on, jobs.store.log, after))
        except RefoldError as error:
            # The log went back, or is damaged: the page says so, and asks anew.
            yield _event("fault", str(after), {"message": hide(str(error))})
            return
        if count:
            shown = {hide(stream): version for stream, version in heads.items()}
            yield _event("news", str(now), {"heads": shown, "events": count, "recorded_at": last})
            after, quiet = now, 0.0
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            quiet += WAIT_SECONDS
            if quiet >= BEAT_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"


def _sees(jobs: Jobs) -> bool:
    """Return whether the present actor may see jobs."""
    try:
        jobs.require_admin()
    except NotAllowedError:
        return False
    return True


def _read_on(log: LiveLog, after: Moment) -> tuple[Moment, dict[str, int], int, str | None]:
    """
    Return the moment after the next events, the heads of their streams, their number, and the time of the last.

    Raises:
        LogWentBackError: the log ends before the moment, as an older copy does that was put in its place.
    """
    now = log.now()
    if now.events - after.events > MISSED_MAX:
        return now, {}, now.events - after.events, None
    page = log.read_all(after=after, limit=PAGE_EVENTS, undecodable=True)
    if not page.events and not page.moment.includes(after):
        seen = f"the log of {after.events:,} events that the page has seen"
        raise LogWentBackError(seen, reason=f"it has {page.moment.events:,}", remedy="load the page again")
    if not page.events:
        log.wait_for_news(after, timeout_seconds=WAIT_SECONDS)
        return after, {}, 0, None
    heads: dict[str, int] = {}
    for event in page.events:
        heads[event.stream] = max(event.version, heads.get(event.stream, 0))
    return page.moment, heads, len(page.events), exact(page.events[-1].recorded_at)


def _event(name: str, moment: str, data: dict[str, object]) -> str:
    return f"event: {name}\nid: {moment}\ndata: {json.dumps(data)}\n\n"
