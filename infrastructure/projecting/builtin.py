"""The projections that every store keeps: a new one gets a line here."""

from __future__ import annotations

from ...projections.approvals import APPROVALS
from ...projections.catalogue import CATALOGUE
from ...projections.contract import Projection
from ...projections.entries import ENTRIES
from ...projections.growth import GROWTH
from ...projections.lineage import LINEAGE
from ...projections.rollup import ROLLUP
from ...projections.saved_states import SAVED_STATES
from ...projections.search import SEARCH
from ...projections.steps import STEPS
from ...projections.trajectory_tables import RUN_TABLES
from ...projections.transitions import TRANSITIONS
from ...projections.usage import USAGE
from ...projections.validity import VALIDITY
from ...projections.version_names import VERSION_NAMES

PROJECTIONS: tuple[Projection, ...] = (
    CATALOGUE,
    ROLLUP,
    GROWTH,
    STEPS,
    SEARCH,
    TRANSITIONS,
    VALIDITY,
    ENTRIES,
    LINEAGE,
    USAGE,
    APPROVALS,
    SAVED_STATES,
    VERSION_NAMES,
    *RUN_TABLES,
)
