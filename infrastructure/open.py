"""The composition root: opens a store from a path or a URL. Contexts in a store are opened by `context_streams.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.arguments import require_functions, require_system
from ..domain.canonical import require_unicode
from ..domain.clock import REAL_SYSTEM, System
from ..domain.context.folded_stream import Durability, require_durability
from ..domain.errors import InvalidInputError
from ..domain.log.gate import Acting, Allow, Gate
from ..domain.redaction import Redact
from .databases import location_of, open_database, stored_log
from .projecting.store import ProjectionStore
from .store import Store

if TYPE_CHECKING:
    from .trust.checkpoints import Checkpoints
    from .trust.keys import Keys
    from .trust.witness import Witness


def open_store(
    location: str | Path,
    *,
    durability: Durability = "commit",
    create: bool = True,
    read_only: bool = False,
    synchronous: str = "FULL",
    witness: Witness | str | Path | None = None,
    system: System = REAL_SYSTEM,
    keys: Keys | None = None,
    encrypt: bool | None = True,
    acting: Acting = "optional",
    allow: Allow | None = None,
    redact: Redact | None = None,
    private: bool | None = None,
) -> Store:
    """
    Open the store at `location`: a path (SQLite), a URL "postgresql://...", or ":memory:". A URL of SQLAlchemy, such as
    "postgresql+psycopg://...", is understood.

    `durability` is the default of its contexts: "commit" (a call returns when its events are on disk) or "enqueue"
    (when they are queued; `flush()` is the barrier). `synchronous` is SQLite's own setting: with FULL, commits survive
    a power cut; with NORMAL, a power cut may lose the last commits. With `create=False` a missing database is an error.
    `system` gives the times and the new ids of its events; a test may give one of its own. With `keys` a new store is
    encrypted, or with `encrypt=False` only its digests are keyed, so that nobody without the keys can forge an event. A
    store is opened as it was made; with `encrypt=None` it may be of either kind.

    With `acting="required"` every change needs an actor, which `refold.acting(actor=...)` sets. `allow(actor, action,
    context)` is asked at every call that reads or changes something, and returns whether the actor may do it. `action`
    is one of `refold.domain.log.gate.ACTIONS`; `context` is `kind:id`, or None for the whole store.
    `redact` is called with each text that leaves this process, as requests to models, documents and pages, and returns
    what may be shown (see `refold.redact`). With `private=True` the files of SQLite are made so that nobody but their
    owner may read them (0600), and files that others may open are refused; by default REFOLD_PRIVATE decides.

    `witness` keeps checkpoints of the store outside of it: the path of a file on another disk or machine, a URL
    "https://...", or an object with the methods `add` and `entries`. Then reading refuses what was changed since. It is
    the witness of this store alone, and all who write to the store must name it.

    Raises:
        InvalidInputError: an option or the location is invalid, or a store is opened with keys and was made without
            them, or with the other `encrypt`.
        StorageUnavailableError: the database is missing, cannot be reached, or is not one of Refold's.
        KeyUnavailableError: the store was made with keys, and these are not they.
        TamperedError: the store is not what its witness saw.
    """
    text = location_of(location)
    require_durability(durability)
    if acting not in ("optional", "required"):
        raise InvalidInputError(f"acting is {acting!r}: take 'optional' or 'required'")
    require_functions(allow=allow, redact=redact)
    if require_unicode(synchronous, "synchronous").upper() not in ("FULL", "NORMAL", "EXTRA"):
        raise InvalidInputError(f"synchronous is {synchronous!r}: take FULL, NORMAL or EXTRA")
    observer = None if witness is None else _witness_of(text, witness)
    log, projections = open_database(
        text, create=create, read_only=read_only, synchronous=synchronous.upper(), system=require_system(system),
        keys=keys, encrypt=encrypt, private=private,
    )  # fmt: skip
    try:
        # A log in memory needs no warning if it is not closed. The `where` of PostgreSQL leaves out the password.
        opened_at = log.database.where if hasattr(log, "database") else None
        checkpoints = None if observer is None else _witnessed(log, projections, observer, read_only=read_only)
        make = partial(
            Store, log, projections, durability=durability, opened_at=opened_at, system=system, checkpoints=checkpoints
        )
        store = _gated(make, allow, redact, acting)
        return store if read_only else store._with_erasures_finished()
    except BaseException:
        log.close()
        raise


def _gated(make: partial[Store], allow: Allow | None, redact: Redact | None, acting: Acting) -> Store:
    """Make a store, behind a gate where one is wanted."""
    if allow is None and redact is None and acting == "optional":
        return make()
    from .trust.gated_store import GatedStore

    gate = Gate(allow, needs_actor=acting == "required", redact=redact)
    return GatedStore(*make.args, **make.keywords, gate=gate)


def accept_store(
    location: str,
    *,
    witness: Witness | str | Path | None,
    keys: Keys | None,
    encrypt: bool | None,
    actor: str,
    reason: str,
) -> int:
    """
    Have the witness of a store begin anew with the store as it is; return how many events it has.

    Raises:
        InvalidInputError: no witness was named.
        StorageError: the witness cannot be reached.
    """
    if witness is None:
        raise InvalidInputError("no witness was named: --witness or REFOLD_WITNESS does")
    text = location_of(location)
    observer = _witness_of(text, witness)
    log, projections = open_database(text, create=False, keys=keys, encrypt=encrypt)
    try:
        checkpoints = _checkpoints(log, projections, observer, read_only=False)
        checkpoints.accept(actor, reason)
        checkpoints.close()
        return checkpoints.known.seen.events
    finally:
        log.close()


def _witness_of(location: str, given: Witness | str | Path) -> Witness:
    """Return the witness that is given for a store; it is refused before a database is made."""
    from .trust.witness import witness_at

    if location == ":memory:":
        raise InvalidInputError("a store in memory ends with its process, and nobody else can change it: no witness")
    return witness_at(given)


def _witnessed(log: Any, projections: ProjectionStore, witness: Witness, *, read_only: bool) -> Checkpoints:
    """Compare a log with its witness, from now on."""
    checkpoints = _checkpoints(log, projections, witness, read_only=read_only)
    checkpoints.start()
    stored_log(log).use_evidence(checkpoints.known)
    return checkpoints


def _checkpoints(log: Any, projections: ProjectionStore, witness: Witness, *, read_only: bool) -> Checkpoints:
    from .trust.checkpoints import Checkpoints
    from .trust.known_events import KnownEvents

    stored = stored_log(log)
    return Checkpoints(KnownEvents(stored, stored.segment_table(), read_only=read_only), projections, witness, log)
