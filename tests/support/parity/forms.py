"""Recognises the form of a file of recorded answers by its content."""

import json
import re

FORM_OF_KEYS = {
    frozenset({"seed", "max_tokens", "ops", "build", "tokens", "keys"}): "window operations",
    frozenset({"seed", "kind", "limit", "ops", "log", "final"}): "queue and pool operations",
    frozenset({"seed", "ctx", "other", "answers"}): "chat answers",
    frozenset({"seed", "records", "kept", "context", "context_of_kept"}): "message records",
    frozenset({"seed", "rounds"}): "trajectory rounds",
}
CONVERSIONS = "chat conversions"
CONVERSION_KEYS = frozenset({"input", "openai", "anthropic", "google"})
SECTIONS = "sections"
SECTION = re.compile(r"={5} \S")
PROBES = "probes"
PROBE = re.compile(r"\S.* +-> ")


def recognized(text: str) -> str | None:
    """Return the name of the form of a file's text, or None if it has no known form."""
    if text.startswith("{"):
        return _form_of_lines(text) or _form_of_document(text)
    first = text.partition("\n")[0]
    if SECTION.match(first):
        return SECTIONS
    return PROBES if PROBE.match(first) else None


def _form_of_lines(text: str) -> str | None:
    # Not `splitlines`: JSON strings may have other characters that end a line in Unicode.
    forms = {FORM_OF_KEYS.get(frozenset(_object(line))) for line in text.rstrip("\n").split("\n")}
    return forms.pop() if len(forms) == 1 else None


def _form_of_document(text: str) -> str | None:
    cases = _object(text).values()
    fit = [isinstance(case, dict) and case.keys() >= CONVERSION_KEYS for case in cases]
    return CONVERSIONS if fit and all(fit) else None


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
