"""The replayer of each form that can be replayed."""

from collections.abc import Mapping

from .chats import replayed_chats
from .conversions import replayed_conversions
from .forms import CONVERSIONS
from .messages import replayed_messages
from .replaying import Replayer

__all__ = ["REPLAYERS"]

REPLAYERS: Mapping[str, Replayer] = {
    "chat answers": replayed_chats,
    CONVERSIONS: replayed_conversions,
    "message records": replayed_messages,
}
