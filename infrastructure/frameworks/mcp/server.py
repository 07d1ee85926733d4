"""The server itself: tools and resources of a store, over stdin and stdout or over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette

from ....domain.concurrency.threads import in_thread
from ....domain.errors import ConcurrencyError, ContextNotFoundError, InvalidInputError, RefoldError
from ....domain.log.envelope import acting
from ....domain.log.gate import behind_gate, leaving
from ....domain.positions import Moment, Position
from ....projections.catalogue import CatalogueRow
from ...request_guard import INTERNAL, LOCAL_HOSTS, RequestGuard, fault_in_words
from ...store import Store
from ..open_chats import require_store
from .answers import PAGE_ITEMS_MAX
from .tools import Tool, offered

NAME = "mcp"
PATH = "/mcp"
SCHEME = "ctx://"
JSON = "application/json"
LISTED = 100
BODY_MAX = 4_194_304
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
ABOUT = (
    "Contexts of LLM agents, with their past: chats, queues, pools, windows, memories and runs. A context is named"
    " support or chat:support, and a moment of its past support@3. Begin with the resources, or with context_search."
)
log = logging.getLogger(__name__)
Params = Any
T = TypeVar("T")


def mcp_server(store: Store, *, write: bool = False, actor: str = NAME, version: str = "") -> Server[Any]:
    """
    Return a server of the Model Context Protocol whose tools and resources are the contexts of a store.

    It reads only; with `write` it also has the tools that change chats, as `actor`.
    """
    require_store(store)
    tools = offered(write=write)

    async def list_tools(_: Any, params: Params) -> types.ListToolsResult:
        _first_page_only(params)
        return types.ListToolsResult(tools=[_described(name, tool) for name, tool in tools.items()])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}: there are {', '.join(tools)}")
        return await in_thread(_called, store, tool, params.arguments or {}, actor)

    async def list_resources(_: Any, params: Params) -> types.ListResourcesResult:
        with acting(actor=actor):
            return await in_thread(_resources, store, None if params is None else params.cursor)

    async def list_templates(_: Any, params: Params) -> types.ListResourceTemplatesResult:
        _first_page_only(params)
        return types.ListResourceTemplatesResult(resource_templates=_templates())

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        with acting(actor=actor):
            return await in_thread(_read, store, str(params.uri))

    return Server(
        "refold",
        version=version,
        title="Refold",
        instructions=ABOUT,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def http_app(server: Server[Any], *, hosts: Sequence[str] = LOCAL_HOSTS) -> Starlette:
    """
    Return an ASGI app that serves a server over HTTP, at `/mcp`; each request stands alone.

    `hosts` are the names in the header `Host` that are answered; a request from a page of another site is refused.
    """
    app: Starlette = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_MAX,
        # The guard checks the same, and more strictly.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # A stream that another site opens is refused, too: no method is harmless.
    app.add_middleware(RequestGuard, name="server", hosts=tuple(hosts), headers=HEADERS, harmless=())
    return app


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout, until stdin ends."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _first_page_only(params: Params) -> None:
    if params is not None and params.cursor:
        raise MCPError(types.INVALID_PARAMS, f"{params.cursor!r} is no cursor: this list has one page")


def _described(name: str, tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=not tool.writes, destructive_hint=False, open_world_hint=False)
    return types.Tool(name=name, description=tool.about, input_schema=tool.schema(), annotations=hints)


def _called(store: Store, tool: Tool, arguments: Mapping[str, Any], actor: str) -> types.CallToolResult:
    try:
        with acting(actor=actor):
            answer = leaving(tool.call(store, arguments), store.log)
    except Exception as error:
        kind, text = _kind_and_text(store, error)
        if isinstance(error, ContextNotFoundError) and "create" in tool.arguments:
            text += "; `create` makes one"
        content = [types.TextContent(text=text)]
        return types.CallToolResult(content=content, structured_content={"error": kind, "message": text}, is_error=True)
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=answer)


def _kind_and_text(store: Store, error: Exception) -> tuple[str, str]:
    """Return the type of an error, and what is said of it; of a fault nothing but its type is safe to show."""
    if isinstance(error, RefoldError):
        try:
            return type(error).__name__, _sendable(leaving(_remedied(error), store.log))
        except Exception as fault:
            # The hook that hides texts failed.
            error = fault
    log.error("a request failed", exc_info=error)
    return INTERNAL, fault_in_words("server", error)


def _answer_or_error(store: Store, ask: Callable[[], T], about: Mapping[str, str] | None = None) -> T:
    """
    Return the answer to a request without a tool.

    Raises:
        MCPError: there is none; it says no more than the error of a tool would.
    """
    try:
        return ask()
    except Exception as error:
        kind, text = _kind_and_text(store, error)
        raise MCPError(types.INTERNAL_ERROR if kind == INTERNAL else types.INVALID_PARAMS, text, about) from error


def _remedied(error: RefoldError) -> str:
    """Return the text of an error; what it advises must be something that an agent can do."""
    if isinstance(error, ContextNotFoundError):
        return f"{error.fault}: the resources list them"
    if not isinstance(error, ConcurrencyError) or error.is_ahead:
        return str(error)
    return (
        f"{error.stream} is at version {error.actual}, and this was decided on version {error.expected}: look at it "
        "with context_view, and if the change is still right, call again with that version as expected_version"
    )


def _sendable(text: str) -> str:
    """Return a text without halves of characters, which an argument may have, and which cannot be sent."""
    return text.encode("utf-8", "backslashreplace").decode()


def _resources(store: Store, cursor: str | None) -> types.ListResourcesResult:
    def ask() -> types.ListResourcesResult:
        page = store.find_contexts(limit=LISTED, cursor=None if cursor is None else _stream_at(store, cursor))
        listed = [_resource(row, leaving(row.key, store.log)) for row in page.contexts]
        last = page.contexts[-1] if page.cursor else None
        # The place where the last context begins in the log: its name may have to be hidden.
        begun = None if last is None else str(Position(last.lane, last.first_number))
        return types.ListResourcesResult(resources=listed, next_cursor=begun)

    return _answer_or_error(store, ask)


def _stream_at(store: Store, cursor: str) -> str:
    here = Moment.parse(cursor)
    before = Moment(tuple((lane, max(number - 1, 0)) for lane, number in here.heads))
    found = behind_gate(store.log).read_all(after=before, until=here, limit=1).events
    if not found:
        raise InvalidInputError(f"{cursor!r} is no cursor of this store: begin again without one")
    return found[0].stream


def _resource(row: CatalogueRow, name: str) -> types.Resource:
    about = f"{row.kind} at version {row.version}: {row.items} items, about {row.tokens} tokens"
    return types.Resource(uri=uri_of(name), name=name, description=about, mime_type=JSON)


def _templates() -> list[types.ResourceTemplate]:
    about = f"What a context holds: its last items, {PAGE_ITEMS_MAX} at most. "
    return [
        types.ResourceTemplate(
            uri_template=f"{SCHEME}{{context}}", name="context", description=about + "Now.", mime_type=JSON
        ),
        types.ResourceTemplate(
            uri_template=f"{SCHEME}{{context}}@{{address}}",
            name="context-at",
            description=about + "At a moment: a version, a time, or the name of a version.",
            mime_type=JSON,
        ),
    ]


def uri_of(address: str) -> str:
    """Return the URI of `CTX` or `CTX@V`."""
    return SCHEME + quote(address, safe="@")


def _read(store: Store, uri: str) -> types.ReadResourceResult:
    if not uri.startswith(SCHEME):
        raise MCPError(types.INVALID_PARAMS, f"{uri!r} is no address of a context: write {SCHEME}CONTEXT@MOMENT")
    try:
        address = unquote(uri.removeprefix(SCHEME), errors="strict")
    except UnicodeDecodeError as error:
        raise MCPError(types.INVALID_PARAMS, f"{uri!r} is not UTF-8 after its % signs are read") from error
    view, given = offered(write=False)["context_view"], {"context": address, "limit": PAGE_ITEMS_MAX}
    answer = _answer_or_error(store, lambda: leaving(view.call(store, given), store.log), {"uri": uri})
    text = json.dumps(answer, ensure_ascii=False)
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=text)])
