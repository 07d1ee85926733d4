"""Stores of each kind, for tests that hold on all of them."""

from tests.projecting.conftest import location as location
from tests.projecting.conftest import place as place
from tests.projecting.conftest import store as store
