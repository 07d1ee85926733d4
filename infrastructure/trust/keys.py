"""
Master keys, which stay outside the database, and the data keys that they wrap.

Each subject (a person whose data a store holds, or a session without one) has a data key of its own. The database keeps
it wrapped: encrypted with a master key. To destroy the wrapped key makes everything unreadable that was encrypted with
it, in every copy of the database.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ...domain.errors import InvalidInputError, KeyMissingError, WrongKeyError
from ..files import sync_folder

KEY_BYTES = 32
NONCE_BYTES = 12
VARIABLE = "REFOLD_MASTER_KEYS"


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
            if len(key) != KEY_BYTES:
                raise InvalidInputError(
                    f"the master key {name!r} of {where} has {len(key)} bytes: it needs {KEY_BYTES}"
                )
        if not self._masters:
            raise InvalidInputError(f"there is no master key in {where}: add one of {KEY_BYTES} bytes")

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
    without it nobody can read the stores.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        if not self._path.exists():
            self.make()
        return MasterKeys(self._read(), str(self._path)).wrap(key)

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        if not self._path.exists():
            raise KeyMissingError(master, str(self._path))
        return MasterKeys(self._read(), str(self._path)).unwrap(master, wrapped)

    def make(self) -> str:
        """Make the file with its first master key, if it does not exist, and return the name of that key."""
        with suppress(FileExistsError):
            self._write({"m1": os.urandom(KEY_BYTES)})
        return "m1"

    def add_master(self) -> str:
        """
        Add a new master key, the newest from now on, and return its name; `Store.rotate_keys` puts it into use.

        Raises:
            InvalidInputError: the file does not exist, or is not a file of keys.
        """
        masters = self._read()
        name = f"m{len(masters) + 1}"
        self._write({**masters, name: os.urandom(KEY_BYTES)}, replaces=True)
        return name

    def _read(self) -> dict[str, bytes]:
        try:
            texts = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(name): base64.b64decode(text, validate=True) for name, text in texts.items()}
        except OSError as error:
            raise InvalidInputError(f"the key file {self._path} cannot be read ({error.strerror})") from error
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidInputError(f"{self._path} is not a file of keys: it needs names and keys in base64") from error

    def _write(self, masters: Mapping[str, bytes], *, replaces: bool = False) -> None:
        text = json.dumps({name: base64.b64encode(key).decode() for name, key in masters.items()}, indent=2)
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(aside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link fails where another process was faster, so that two stores made at once share one key.
            (os.replace if replaces else os.link)(aside, self._path)
        finally:
            with suppress(FileNotFoundError):
                aside.unlink()
            # Whoever made the file: without its key nothing can be read that is written from now on, so its name must
            # be on disk as well.
            sync_folder(self._path.parent)


class KeyEnvironment:
    """Master keys in a variable of the environment: `m1:BASE64,m2:BASE64`, the newest last."""

    def __init__(self, variable: str = VARIABLE) -> None:
        self._variable = variable

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        return self._keys().wrap(key)

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        return self._keys().unwrap(master, wrapped)

    def _keys(self) -> MasterKeys:
        pairs = [part.partition(":") for part in os.environ.get(self._variable, "").split(",") if part.strip()]
        try:
            masters = {name.strip(): base64.b64decode(text, validate=True) for name, _, text in pairs}
        except binascii.Error as error:
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


def _bound(master: str) -> bytes:
    return b"refold data key " + master.encode()
