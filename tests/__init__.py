"""The tests of Refold; a package, so that they can share what lies in tests.support."""
