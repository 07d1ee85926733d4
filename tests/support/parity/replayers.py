"""The replayer of each form that can be replayed."""

from collections.abc import Mapping

from .chats import replayed_chats
from .containers import replayed_containers
from .conversions import replayed_conversions
from .forms import CONVERSIONS
from .messages import replayed_messages
from .replaying import Replayer
from .trajectories import replayed_trajectories
from .windows import replayed_windows

REPLAYERS: Mapping[str, Replayer] = {
    "chat answers": replayed_chats,
    CONVERSIONS: replayed_conversions,
    "message records": replayed_messages,
    "queue and pool operations": replayed_containers,
    "trajectory rounds": replayed_trajectories,
    "window operations": replayed_windows,
}
