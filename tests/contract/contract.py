"""The contract of a log: all that holds for memory, SQLite and PostgreSQL alike."""

from .appending import AppendingContract
from .following import FollowingContract
from .reading import ReadingContract
from .repeating import RepeatingContract


class LogContract(AppendingContract, ReadingContract, RepeatingContract, FollowingContract):
    """Subclass it in a module that has the fixture `store`."""
