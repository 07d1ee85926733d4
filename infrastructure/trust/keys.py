"""
Master keys, which stay outside the database, and the data keys that they wrap.

Each subject (a person whose data a store holds, or a session without one) has a data key of its own. The database keeps
it wrapped: encrypted with a master key. To destroy the wrapped key makes everything unreadable that was encrypted with
it, in every copy of the database.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from ...domain.arguments import require_path
from ...domain.canonical import require_unicode
from ...domain.errors import DamagedError, InvalidInputError, KeyMissingError, WrongKeyError
from ..files import sync_folder

KEY_BYTES = 32
NONCE_BYTES = 12
# The beginning of a wrapped key that is bound to its row; earlier versions bound none.
BOUND = b"refold bound key 1\n"
SIZE_BYTES = 4
VARIABLE = "REFOLD_MASTER_KEYS"
NUMBERED = re.compile(r"m([0-9]{1,9})")


class Keys(Protocol):
    """
    The service that holds the master keys: a file, the environment, or a service of a cloud.

    Master keys never reach the database; a name says which one a data key is wrapped with.
    """

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        """Return the name of the newest master key, and `key`, 32 bytes, encrypted with it."""

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        """
        Return the key that `wrap` encrypted with this master key.

        Raises:
            KeyMissingError: there is no such master key here.
            WrongKeyError: the master key of this name is another one.
        """


class MasterKeys:
    """Master keys by name, in this process; the last one is the newest."""

    def __init__(self, masters: Mapping[str, bytes], where: str = "the keys that were given") -> None:
        self._masters, self._where = dict(masters), where
        for name, key in self._masters.items():
            # A name is bound to what is wrapped, and stored with it.
            require_unicode(name, f"the name of a master key of {where}")
            if len(key) != KEY_BYTES:
                raise InvalidInputError(
                    f"the master key {name!r} of {where} has {len(key)} bytes: it needs {KEY_BYTES}"
                )
        if not self._masters:
            raise InvalidInputError(f"there is no master key in {where}: `refold keys new FILE` makes one")

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        newest = [*self._masters][-1]
        return newest, sealed(self._masters[newest], key, _bound(newest))

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        key = self._masters.get(master)
        if key is None:
            raise KeyMissingError(master, self._where)
        return opened(key, wrapped, _bound(master), master)


class KeyFile:
    """
    Master keys in a file of JSON: `{"m1": "...", "m2": "..."}`, each 32 bytes in base64, the newest last.

    The file is made, readable by its owner alone, when a new store first needs a key. Keep a copy of it elsewhere:
    without it nobody can read the stores. If it is gone after it was read, or has another key under the same name, that
    is an error: everything is lost that is encrypted with a key that is not in the copy.
    """

    def __init__(self, path: str | Path) -> None:
        # The program may change its working folder.
        self._path, self._where = require_path(path).absolute(), str(path)
        self._seen: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"KeyFile({self._where!r})"

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        if not self._seen and not self._path.exists():
            self.make()
        return MasterKeys(self._read(), self._where).wrap(key)

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        if not self._path.exists():
            raise KeyMissingError(master, self._where)
        return MasterKeys(self._read(), self._where).unwrap(master, wrapped)

    def make(self) -> str:
        """
        Make the file with its first master key, if it does not exist, and return the name of that key.

        Raises:
            InvalidInputError: it cannot be written.
        """
        with suppress(FileExistsError), self._alone():
            self._write({"m1": os.urandom(KEY_BYTES)})
        return "m1"

    def add_master(self) -> str:
        """
        Add a new master key, the newest from now on, and return its name; `Store.rotate_keys` puts it into use.

        It is numbered behind all that are there: older ones may have been taken out.

        Raises:
            InvalidInputError: the file does not exist, is not a file of keys, or cannot be written.
        """
        with self._alone():
            masters = self._read()
            numbers = [int(found[1]) for name in masters if (found := NUMBERED.fullmatch(name))]
            name = f"m{max([len(masters), *numbers]) + 1}"
            self._write({**masters, name: os.urandom(KEY_BYTES)}, replaces=True)
        return name

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from writing the file: of two writers, one could overwrite a key that is in use already."""
        try:
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                yield
            finally:
                os.close(folder)
        except FileExistsError:
            raise
        except OSError as error:
            raise InvalidInputError(f"the key file {self._where} cannot be written ({error.strerror})") from error

    def _read(self) -> dict[str, bytes]:
        try:
            texts = json.loads(self._path.read_text(encoding="utf-8"))
            masters = {str(name): base64.b64decode(text, validate=True) for name, text in texts.items()}
        except OSError as error:
            raise InvalidInputError(f"the key file {self._where} cannot be read ({error.strerror})") from error
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise InvalidInputError(
                f"{self._where} is not a file of keys: it needs names and keys in base64"
            ) from error
        found = {name: hashlib.sha256(key).digest() for name, key in masters.items()}
        for name in found:
            if self._seen.get(name, found[name]) != found[name]:
                raise InvalidInputError(f"the key {name!r} of {self._where} was another one before: put that file back")
        self._seen |= found
        return masters

    def _write(self, masters: Mapping[str, bytes], *, replaces: bool = False) -> None:
        text = json.dumps({name: base64.b64encode(key).decode() for name, key in masters.items()}, indent=2)
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        # A process that was killed left this file: in a container the next one often has the same number.
        new.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            # A link fails where another process was faster, so that two stores made at once share one key.
            (os.replace if replaces else os.link)(new, self._path)
        finally:
            new.unlink(missing_ok=True)
            # This is done for a file of another process, too: nothing that is written from now on can be read without
            # its key, so its name must be on disk as well.
            sync_folder(self._path.parent)


class KeyEnvironment:
    """Master keys in a variable of the environment: `m1:BASE64,m2:BASE64`, the newest last."""

    def __init__(self, variable: str = VARIABLE) -> None:
        self._variable = variable

    def __repr__(self) -> str:
        return f"KeyEnvironment({self._variable!r})"

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        return self._keys().wrap(key)

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        return self._keys().unwrap(master, wrapped)

    def _keys(self) -> MasterKeys:
        pairs = [part.partition(":") for part in os.environ.get(self._variable, "").split(",") if part.strip()]
        try:
            masters = {name.strip(): base64.b64decode(text, validate=True) for name, _, text in pairs}
        except ValueError as error:
            raise InvalidInputError(f"{self._variable} holds a key that is not base64: {error}") from error
        return MasterKeys(masters, f"the variable {self._variable}")


def sealed(key: bytes, data: bytes, bound: bytes) -> bytes:
    """Return `data` encrypted with AES-256-GCM under a new nonce, which comes first; `bound` must be given to open."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, bound)


def opened(key: bytes, data: bytes, bound: bytes, name: str) -> bytes:
    """
    Return what `sealed` encrypted.

    Raises:
        WrongKeyError: the key, which has this name, is another one, or the bytes were changed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError) as error:
        raise WrongKeyError(name) from error


def wrapped_for(keys: Keys, key: bytes, bound: bytes) -> tuple[str, bytes]:
    """
    Return the name of the newest master key and `key`, wrapped; `bound` must be given to unwrap it.

    A service wraps keys and binds them to nothing. So it wraps a random key, which encrypts `key` bound to `bound`.
    """
    wrapping = os.urandom(KEY_BYTES)
    master, wrapped = keys.wrap(wrapping)
    return master, BOUND + len(wrapped).to_bytes(SIZE_BYTES, "big") + wrapped + sealed(wrapping, key, bound)


def unwrapped_for(keys: Keys, wrapped: tuple[str, bytes], bound: bytes, what: str) -> bytes:
    """
    Return the key that `wrapped_for` wrapped, or that an earlier version did; `what` names its row in errors.

    Raises:
        DamagedError: it was bound to something else, or its bytes were changed.
        InvalidInputError: `keys` gave something that is no key.
    """
    master, data = wrapped
    if not data.startswith(BOUND):
        return _require_key(keys.unwrap(master, data), what)
    start = len(BOUND) + SIZE_BYTES
    end = start + int.from_bytes(data[len(BOUND) : start], "big")
    wrapping = _require_key(keys.unwrap(master, data[start:end]), what)
    try:
        return opened(wrapping, data[end:], bound, what)
    except WrongKeyError as error:
        raise DamagedError(what, "its key is of another subject or time, or its bytes were changed") from error


def _require_key(key: object, what: str) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InvalidInputError(f"the keys gave no key of {KEY_BYTES} bytes for {what}: look at their `unwrap`")
    return key


def _bound(master: str) -> bytes:
    return b"refold data key " + master.encode()
