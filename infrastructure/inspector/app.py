"""
The Inspector as an ASGI app: the page, its JSON and the live news, to be served alone or mounted in another app.

Everything that leaves the server passes `redact`, and every answer has the headers of HEADERS.

Model output is hostile input. POLICY forbids the browser to run anything that is not a file of the Inspector, and to
make HTML of a text. So a mistake in the page shows a text as text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...domain.arguments import require_functions, require_optional, require_texts
from ...domain.errors import (
    ConcurrencyError,
    InvalidInputError,
    KeyDestroyedError,
    KeyUnavailableError,
    LimitExceededError,
    LogWentBackError,
    NotAllowedError,
    NotFoundError,
    RefoldError,
    RefusedError,
    StorageError,
)
from ...domain.log.gate import gate_of, hook_of
from ...domain.redaction import Redact, redacted
from ..frameworks.open_chats import require_store
from ..log.row_faults import MissingTableError
from ..request_guard import HARMLESS, LOCAL_HOSTS, NEVER, RequestGuard, refused
from ..store import Store
from .answers import meta
from .jobs import Action, Jobs
from .live import news
from .parameters import Parameters
from .questions import ACTIONS, ENDING, QUESTIONS, Question, openapi, question_of

STATIC = Path(__file__).parent / "static"
PAGE = STATIC / "index.html"
# For an answer that never changes. It is private, because an app around this one may ask for a password.
FOR_EVER = "private, max-age=31536000, immutable"
BODY_MAX = 1 << 20

POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
    "trusted-types 'none'",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# The first class that fits counts; all other errors are faults of the store (500). With 503 nothing is wrong with the
# stored data, and the same question may be answered later: the database or a key is away, the database is at its
# limit, or a right is missing.
STATUS = {
    NotAllowedError: 403, NotFoundError: 404, InvalidInputError: 400, LimitExceededError: 400, RefusedError: 409,
    ConcurrencyError: 409, LogWentBackError: 500, MissingTableError: 500, StorageError: 503,
    KeyDestroyedError: 500, KeyUnavailableError: 503,
}  # fmt: skip
Endpoint = Callable[[Request], Awaitable[Response]]


class Settings(NamedTuple):
    """
    A served store: the token of changes, a text that is new at each start, and what hides texts.

    The browser keeps answers that never change for this start only, because another store may be served here later; and
    only until something is erased, which changes them after all.
    """

    store: Store
    name: str
    token: str | None
    start: str
    redact: Redact | None
    jobs: Jobs

    def hide(self, value: Any) -> Any:
        """Return plain data with its texts as they may be shown."""
        return redacted(value, self.redact, hook_of(self.store.log))


def inspector(
    store: Store,
    *,
    write: bool = False,
    redact: Redact | None = None,
    hosts: Sequence[str] = LOCAL_HOSTS,
    name: str | None = None,
) -> Starlette:
    """
    Return an ASGI app that shows a store: its page under `/`, its JSON under `/api/`.

    It is read-only; with `write` the page may also fork, merge, decide on calls and rebuild, with a token that only the
    page gets. `redact` is called with each text that leaves the store, and returns what is shown. `hosts` are the names
    in the `Host` header that are answered; `"*"` answers any, for an app that checks them itself.

    Raises:
        InvalidInputError: one of them is not of its type.
    """
    jobs = Jobs(require_store(store))
    hosts = require_texts(hosts, "hosts")
    require_optional(name, "the name")
    require_functions(redact=redact)
    token = token_urlsafe(24) if write else None
    settings = Settings(store, name or store._opened_at, token, token_urlsafe(9), redact, jobs)
    fingerprint = hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(STATIC.iterdir())), digest_size=8)
    version = fingerprint.hexdigest()
    routes: list[Route | Mount] = [
        Route(f"/api/{path}", partial(_answer, settings, question), methods=["GET"])
        for path, question in QUESTIONS.items()
    ]
    routes += [
        Route(f"/api/{path}", partial(_change, settings, action), methods=["POST"]) for path, action in ACTIONS.items()
    ]
    routes += [
        Route("/api/meta", partial(_meta, settings)),
        Route("/api/openapi.json", _described),
        Route("/api/jobs", partial(_jobs, settings)),
        Route("/api/tail", partial(news, jobs, settings.hide)),
        Route("/api/{anything:path}", _unknown),
        Mount(f"/static/{version}", _Files(directory=STATIC)),
        Route(f"/{{address:path}}{ENDING}", partial(_twin, settings, partial(_page, version)), methods=["GET"]),
        Route("/{anything:path}", partial(_page, version)),
    ]
    # Answers of many items become a fifth as long; a stream of news is left as it is.
    guard = Middleware(RequestGuard, name="Inspector", hosts=hosts, headers=HEADERS)
    small = Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(jobs.end)

    refusals: dict[Any, Any] = {405: _other_method, RefoldError: partial(_fault, settings)}
    app = Starlette(routes=routes, middleware=[guard, small], exception_handlers=refusals, lifespan=lifespan)
    app.state.jobs = jobs
    return app


class _Files(StaticFiles):
    """Files whose address changes with their content."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = FOR_EVER
        return response


async def _page(version: str, request: Request) -> Response:
    """Return the page, which is the same for every address."""
    text = PAGE.read_text(encoding="utf-8")
    root = request.scope.get("root_path", "").rstrip("/")
    for sign, value in (("{root}", root), ("{static}", f"{root}/static/{version}")):
        text = text.replace(sign, value)
    return HTMLResponse(text, headers={"Cache-Control": NEVER})


async def _meta(settings: Settings, request: Request) -> Response:
    answer = await run_in_threadpool(meta, settings.store, settings.start)
    # The token is not hidden: a hook that hides keys might take it for one.
    shown = settings.hide({**answer, "store": settings.name})
    return _plain({**shown, "token": settings.token, "cache": answer["cache"]})


async def _answer(settings: Settings, question: Question, request: Request) -> Response:
    given = Parameters(dict(request.query_params), request.query_params.getlist("ref"))
    return await _answered(settings, question, given, request)


async def _answered(settings: Settings, question: Question, given: Parameters, request: Request) -> Response:
    answer = await run_in_threadpool(question.answer, settings.store, given)
    # The browser keeps no answer that only some actors may see, and none that lacks events which may still come.
    is_whole = gate_of(settings.store.log) is None and len(answer) >= len(given.refs)
    # Without this text in its address, the answer would also be that of another store that is served here later.
    is_of_start = request.query_params.get("start", "").startswith(f"{settings.start}.")
    return _json(settings, answer, cached=question.is_lasting(given) and is_whole and is_of_start)


async def _twin(settings: Settings, page: Endpoint, request: Request) -> Response:
    """Return what the page shows at an address, as data; an address that only looks so gets the page."""
    path, given = request.path_params["address"] + ENDING, dict(request.query_params)
    asked = await run_in_threadpool(question_of, settings.store, path, given)
    if asked is None:
        return await page(request)
    name, parameters = asked
    return await _answered(settings, QUESTIONS[name], Parameters(parameters, []), request)


async def _jobs(settings: Settings, request: Request) -> Response:
    await run_in_threadpool(settings.jobs.require_admin)
    return _json(settings, settings.jobs.since(0)[1])


async def _change(settings: Settings, change: Action, request: Request) -> Response:
    if change.needs_token and settings.token is None:
        return refused(403, "this page is read-only: start it with --write")
    given = request.headers.get("x-refold-token", "")
    if change.needs_token and not compare_digest(given.encode(), str(settings.token).encode()):
        return refused(403, "the token is missing or of another start of the server: load the page again")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return refused(415, "send JSON, with the content type application/json")
    body = b""
    async for part in request.stream():
        body += part
        # The rest is not read: it may have no end.
        if len(body) > BODY_MAX:
            return refused(413, f"the request has more than {BODY_MAX:,} bytes")
    try:
        parameters = json.loads(body)
        if not isinstance(parameters, dict):
            raise ValueError
    except (ValueError, RecursionError):
        return refused(400, "the request is no JSON object")
    return _json(settings, await run_in_threadpool(change.make, settings.jobs, Parameters(parameters, [])))


async def _described(request: Request) -> Response:
    return JSONResponse(openapi(), headers={"Cache-Control": NEVER})


async def _unknown(request: Request) -> Response:
    if request.path_params["anything"] in ACTIONS:
        raise HTTPException(405, headers={"Allow": "POST"})
    return _missing(request)


def _missing(request: Request) -> Response:
    return refused(404, f"there is no {request.url.path}: /api/openapi.json lists what there is")


async def _other_method(request: Request, error: Exception) -> Response:
    """Return the answer to a request with a method that its address does not take."""
    if request.scope.get("endpoint") is _unknown and request.path_params["anything"] not in ACTIONS:
        return _missing(request)
    assert isinstance(error, HTTPException), "only these have a status"
    allowed = "POST" if (error.headers or {}).get("Allow") == "POST" else ", ".join(HARMLESS)
    answer = refused(405, f"{request.url.path} takes {allowed}, not {request.method}")
    answer.headers["Allow"] = allowed
    return answer


def _json(settings: Settings, answer: Any, *, cached: bool = False) -> Response:
    return _plain(settings.hide(answer), cached=cached)


def _plain(answer: Any, *, cached: bool = False) -> Response:
    # A graph has megabytes, which msgspec writes in a fraction of the time of Python's own encoder.
    text = msgspec.json.encode(answer)
    return Response(text, media_type="application/json", headers={"Cache-Control": FOR_EVER if cached else NEVER})


async def _fault(settings: Settings, request: Request, error: RefoldError) -> Response:
    """Return the answer to a question that the store refuses, or cannot answer."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    return refused(status, settings.hide(str(error)), type(error).__name__)
