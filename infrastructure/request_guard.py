"""
The guard of the servers that show a store: it refuses requests that were made by a page of another site.

A page of another site can make a name of its site resolve to this machine; then the browser takes this server for a
part of that site. The header `Host` shows that name, and the header `Origin` shows a request across sites.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
# A server that listens at all addresses of a machine is reached by any of them.
ALL_ADDRESSES = frozenset({"0.0.0.0", "[::]"})
ANY_HOST = "*"
HARMLESS = ("GET", "HEAD")
PORT = re.compile(r":\d+$", re.ASCII)
NEVER = "no-store"
# The kind of an error of Refold's own.
INTERNAL = "InternalError"
log = logging.getLogger(__name__)


class RequestGuard:
    """
    Refuses requests for other hosts and requests from other origins, and puts `headers` on every answer.

    A request with one of the `harmless` methods is answered whatever its origin: a browser does not show the answer to
    another site. An exception of the app becomes an answer that shows only its type; a client that goes away is no
    exception.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        hosts: Sequence[str],
        headers: Mapping[str, str],
        harmless: Sequence[str] = HARMLESS,
    ) -> None:
        self._app, self._name, self._hosts = app, name, frozenset(map(str.lower, hosts))
        self._headers, self._harmless = dict(headers), frozenset(harmless)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        is_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            await (self._refusal(scope) or self._app)(scope, receive, send_guarded)
        except ClientDisconnect:
            # Nobody is there to be answered, and nothing failed here.
            log.info("%s %r: the client went away", scope["method"], scope["path"])
        except Exception as error:
            if is_begun:
                raise
            log.exception("%s %r failed", scope["method"], scope["path"])
            await refused(500, fault_in_words(self._name, error), INTERNAL)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # Names of hosts are the same in capitals.
        host = headers.get("host", "").lower()
        if not self._answers(PORT.sub("", host)):
            return refused(
                400, f"the host {host!r} is not answered: start the server with it as --host, or name it in hosts"
            )
        origin = headers.get("origin")
        if scope["method"] not in self._harmless and origin is not None and origin.partition("://")[2].lower() != host:
            return refused(403, f"the {self._name} takes no request from the page of another site")
        return None

    def _answers(self, name: str) -> bool:
        """Return whether a host is answered. An address cannot be a name that another site makes resolve to here."""
        return (
            ANY_HOST in self._hosts or name in self._hosts or (bool(self._hosts & ALL_ADDRESSES) and _is_address(name))
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def fault_in_words(name: str, error: Exception) -> str:
    """Return what to show of a fault of Refold's own: nothing but its type is known to be safe."""
    return f"the {name} failed with {type(error).__name__}: its log has the reason"


def refused(status: int, text: str, kind: str = "RequestError") -> Response:
    """Return the answer to a request that is refused."""
    return JSONResponse({"error": kind, "message": text}, status_code=status, headers={"Cache-Control": NEVER})
