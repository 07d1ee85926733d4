"""Users of a server who have the roles of `refold init --roles`, for the length of a block."""

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
