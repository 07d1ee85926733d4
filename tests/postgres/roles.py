"""Users of a server, for the length of a block: with the roles of `refold init --roles`, or with few connections."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from refold.infrastructure.cli import main
from refold.infrastructure.log.postgres.roles import ROLES


@contextmanager
def users(url: str, *options: str) -> Iterator[dict[str, str]]:
    """Make the roles, with these options of `refold`, and a user for each; yield the URLs with which they connect."""
    prefix = f"t{secrets.token_hex(4)}"
    assert main([*options, "--db", url, "init", "--roles", prefix]) == 0
    names = {kind: f"{prefix}_{kind}_user" for kind in ROLES}
    with psycopg.connect(url) as owner:
        for kind, name in names.items():
            owner.execute(f"create role {name} login in role {prefix}_{kind}".encode())
    try:
        yield {kind: url.replace("user=refold", f"user={name}") for kind, name in names.items()}
    finally:
        with psycopg.connect(url) as owner:
            for name in (*names.values(), *(f"{prefix}_{kind}" for kind in ROLES)):
                owner.execute(f"drop owned by {name}".encode())
                owner.execute(f"drop role {name}".encode())


@contextmanager
def limited(url: str, connections: int) -> Iterator[str]:
    """Make a user who may have so many connections at once and make tables; yield the URL with which he connects."""
    name = f"t{secrets.token_hex(4)}"
    with psycopg.connect(url) as owner:
        owner.execute(f"create role {name} login connection limit {connections}".encode())
        owner.execute(f"grant create on schema public to {name}".encode())
    try:
        yield url.replace("user=refold", f"user={name}")
    finally:
        with psycopg.connect(url) as owner:
            owner.execute(f"drop owned by {name}".encode())
            owner.execute(f"drop role {name}".encode())
