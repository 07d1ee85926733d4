"""The program `refold mcp`: over stdin and stdout, and over HTTP, to clients of the package and to pages of others."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters, stdio_client

import refold
from refold.infrastructure.cli.serve import mcp as mcp_command
from tests.cli.running import refold as run

from .servers import SUPPORT, command, environment, filled, served

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
PATIENCE_SECONDS = 60


def said(text: str) -> list[dict[str, str]]:
    """Return a message of a user."""
    return [{"role": "user", "content": text}]


def stdio(database: Path, *options: str) -> Any:
    """Return the transport to a server that is started for one client."""
    executable, *arguments = command(database, *options)
    return stdio_client(StdioServerParameters(command=executable, args=arguments, env=environment()))


async def test_two_programs_write_at_once(tmp_path: Path) -> None:
    """Two agents, each with a server of its own over stdin and stdout: all that both append is there, once."""
    database = filled(tmp_path / "s.db")
    async with (
        Client(stdio(database, "--write", "--actor", "one")) as one,
        Client(stdio(database, "--write", "--actor", "two"), mode="legacy") as two,
    ):

        async def write(client: Client, name: str) -> None:
            for number in range(10):
                arguments = {"context": SUPPORT, "messages": said(f"{name} {number}")}
                assert not (await client.call_tool("context_append", arguments)).is_error

        await asyncio.gather(write(one, "one"), write(two, "two"))
        seen = await one.call_tool("context_view", {"context": SUPPORT})

    assert len(seen.structured_content["items"]) == 21
    with refold.open(str(database)) as store:
        chat = store.chat(SUPPORT)
        for name in ("one", "two"):
            own = [message.text for message in chat.messages() if message.text.startswith(name)]
            assert own == [f"{name} {number}" for number in range(10)]
            assert len([event for event in chat.history() if event.meta.actor == name]) == 10
        assert store.verify(processes=1).problems == ()


async def test_it_reads_only_unless_it_is_told_to_write(tmp_path: Path) -> None:
    """Over HTTP, in both ways in which a client begins; each request stands alone."""
    database = filled(tmp_path / "s.db")
    with served(database) as address:
        for mode in ("legacy", "auto"):
            async with Client(address, mode=mode) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert "context_view" in names
                assert "context_append" not in names
                seen = await client.call_tool("context_view", {"context": SUPPORT})
                assert [one["item"]["content"] for one in seen.structured_content["items"]] == [["Where is order 7?"]]
                [content] = (await client.read_resource(f"ctx://{SUPPORT}@2")).contents
                assert json.loads(content.text)["version"] == 2
    with served(database, "--write", "--actor", "web") as address:
        async with Client(address) as one, Client(address, mode="legacy") as two:
            results = await asyncio.gather(
                *(
                    client.call_tool("context_append", {"context": SUPPORT, "messages": said(str(number))})
                    for number in range(8)
                    for client in (one, two)
                )
            )
            assert not any(result.is_error for result in results)
    with refold.open(str(database)) as store:
        assert len(store.chat(SUPPORT).items) == 17


def test_pages_of_other_sites_are_refused(tmp_path: Path) -> None:
    """Neither a name that leads here by a trick of DNS nor another origin is answered, whatever the method."""
    with served(filled(tmp_path / "s.db")) as address, httpx.Client(timeout=PATIENCE_SECONDS) as client:
        host = address.removeprefix("http://").removesuffix("/mcp")
        for name in ("evil.example", "127.0.0.1.evil.example", f"evil.example@{host}", ""):
            assert client.post(address, json=INITIALIZE, headers={**HEADERS, "host": name}).status_code == 400
        for origin in ("https://evil.example", "null", "http://127.0.0.1:9", "http://["):
            headers = {**HEADERS, "origin": origin}
            assert client.post(address, json=INITIALIZE, headers=headers).status_code == 403
            assert client.get(address, headers=headers).status_code == 403
            assert client.delete(address, headers=headers).status_code == 403
        own = client.post(address, json=INITIALIZE, headers={**HEADERS, "origin": f"http://{host}"})
        assert own.json()["result"]["serverInfo"]["name"] == "refold"
        assert own.headers["x-content-type-options"] == "nosniff"
        body = json.dumps({**INITIALIZE, "id": "x" * (5 << 20)})
        assert client.post(address, content=body, headers=HEADERS).status_code == 413
        for broken in (b"", b"{", b"[]", b"\xff", b'{"jsonrpc": "2.0"}', b'"' + b"[" * 100_000):
            assert 400 <= client.post(address, content=broken, headers=HEADERS).status_code < 500
        assert client.post(address, json=INITIALIZE, headers={"content-type": "text/plain"}).status_code in (400, 406)


def test_lines_that_are_no_requests_do_not_end_it(tmp_path: Path) -> None:
    """Over stdin: broken lines are passed over or answered by an error, and the next request is answered."""
    lines = ["", "{", "\x00", "[]", '{"jsonrpc": "2.0", "method": 7}', "x" * 1_000_000, json.dumps(INITIALIZE)]
    done = subprocess.run(
        command(filled(tmp_path / "s.db")), input="".join(f"{line}\n" for line in lines), capture_output=True,
        text=True, timeout=PATIENCE_SECONDS, env=environment(), check=False,
    )  # fmt: skip

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [one["result"]["serverInfo"]["name"] for one in answers if one.get("id") == 1] == ["refold"]
    assert all(set(one) >= {"jsonrpc"} for one in answers)


def test_it_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """By Ctrl-C, over HTTP, and at the end of stdin; the store is closed."""
    database = filled(tmp_path / "s.db")
    process = subprocess.Popen(
        command(database, "--http", "--port", "0"), stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None
    with process.stderr:
        assert "served at" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) in (0, 130)
    ended = subprocess.run(
        command(database), stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, env=environment(), check=False
    )

    assert ended.returncode == 0
    assert list(tmp_path.glob("*-wal")) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_closes_the_store_over_stdio(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Also while it waits for a line; the exit codes are those of the server over HTTP."""
    with subprocess.Popen(
        command(filled(tmp_path / "s.db"), "--write"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(),
    ) as waiting:  # fmt: skip
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        print(json.dumps(INITIALIZE), file=waiting.stdin, flush=True)
        assert "refold" in waiting.stdout.readline()
        assert list(tmp_path.glob("*-wal"))
        waiting.send_signal(number)
        assert waiting.wait(PATIENCE_SECONDS) == code
        assert waiting.stderr.read() == ""
    assert list(tmp_path.glob("*-wal")) == []


def test_options_of_http_go_with_http() -> None:
    """A port that nobody would listen at is refused."""
    result = CliRunner().invoke(mcp_command, ["--port", "1"])

    assert result.exit_code == 2
    assert "--port and --host go with --http" in result.output


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one line."""
    for name in [name for name in sys.modules if name.startswith("refold.infrastructure.frameworks.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp_types", None)

    ended = run("mcp")

    assert ended.code == 1
    assert 'pip install "refold[mcp]"' in ended.fault
