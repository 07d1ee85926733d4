"""The reference says what the code says: names, signatures, fields, tables and limits."""

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest

import refold
from refold.domain import errors
from refold.domain.chat import events
from refold.domain.chat.events import ChatItemEvent
from refold.domain.content import Content
from refold.infrastructure.inspector.changes import CHANGES
from refold.infrastructure.inspector.jobs import TASKS
from refold.infrastructure.inspector.questions import QUESTIONS
from refold.infrastructure.log.codec import CODEC
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.store import ERASED
from refold.infrastructure.store_id import NOTE
from refold.infrastructure.trust.checkpoints import KNOWN, OUTAGE
from tests.docs.markdown import anchors, blocks, documents, prose, section, table_rows
from tests.support.project import PACKAGES, ROOT, files, modules, parsed

PYTHON = ROOT / "docs" / "reference" / "python.md"
STORED = ROOT / "docs" / "reference" / "stored-format.md"
LIMITS = ROOT / "docs" / "reference" / "limits.md"
API = ROOT / "docs" / "reference" / "inspector-api.md"
LAYERS = [package for package in PACKAGES if package != "refold"]
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
STRUCTS = [*get_args(CODEC.events), events.Image, events.Origin, Content]
TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(?:\{p\})?(\w+) \((.*?)\n\)", re.DOTALL)


def definitions(body: list[ast.stmt]) -> dict[str, Definition]:
    """Return the public classes and functions of a module, or the methods of a class."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in body if isinstance(node, kinds)}


@cache
def documented() -> dict[str, Definition]:
    """
    Return what stands in the reference's blocks, by name; where two have one name, their blocks name the package too.

    A class may be shown in several blocks: together they are the whole of it.
    """
    found: dict[str, Definition] = {}
    for block in (block for block in blocks(PYTHON) if block.language == "pyi"):
        for name, node in definitions(ast.parse(block.text).body).items():
            whole = found.setdefault(".".join((*block.info[1:], name)), node)
            if whole is not node:
                whole.body += node.body
    return found


@cache
def defined() -> dict[str, list[tuple[str, Definition]]]:
    """Return the definitions of the layers by name, each with its module."""
    found: dict[str, list[tuple[str, Definition]]] = {}
    for layer in LAYERS:
        for module, path in modules(layer):
            for name, node in definitions(parsed(path).body).items():
                found.setdefault(name, []).append((module, node))
    return found


def in_code(path_and_name: str) -> Definition:
    """Return the definition of this name in the layers, where a public package is before it the one that it exports."""
    package, _, name = path_and_name.rpartition(".")
    exported = getattr(importlib.import_module(package), name) if package else None
    found = [node for module, node in defined().get(name, []) if exported is None or module == exported.__module__]
    assert len(found) == 1, path_and_name
    return found[0]


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, str, bool, list[str]]:
    """Return what can be compared of a function: parameters, result, whether it is awaited, decorators."""
    result = ast.unparse(node.returns) if node.returns else ""
    # How threads are kept apart is no part of how it is called.
    decorators = [name for one in node.decorator_list if (name := ast.unparse(one)) != "synchronized"]
    return ast.unparse(node.args), result, isinstance(node, ast.AsyncFunctionDef), decorators


def fields(node: ast.ClassDef) -> dict[str, str]:
    """Return the public fields of a class with their types."""
    found = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    return {
        ast.unparse(one.target): ast.unparse(one.annotation)
        for one in found
        if not ast.unparse(one.target).startswith("_")
    }


def compared(node: Definition, *, with_init: bool) -> Any:
    """Return all of a definition that the reference must have right."""
    if not isinstance(node, ast.ClassDef):
        return signature(node)
    methods = {
        name: signature(method)
        for name, method in definitions(node.body).items()
        if not isinstance(method, ast.ClassDef) and (not name.startswith("_") or (with_init and name == "__init__"))
    }
    return fields(node), methods


@pytest.mark.parametrize("name", documented())
def test_signatures_are_exact(name: str) -> None:
    """Each block has all public methods and fields of what it shows, with the parameters they have."""
    shown = documented()[name]
    with_init = isinstance(shown, ast.ClassDef) and "__init__" in definitions(shown.body)

    found = compared(in_code(name), with_init=with_init)
    if isinstance(shown, ast.ClassDef) and ast.get_docstring(shown) == "In part.":
        # What is not shown is for use within Refold.
        found = tuple(
            {key: part[key] for key in part if key in kept}
            for part, kept in zip(found, compared(shown, with_init=False), strict=True)
        )
    documented_as = compared(shown, with_init=with_init)
    assert documented_as == found, f"correct {', '.join(differing(documented_as, found)) or name} in {PYTHON.name}"


def differing(shown: Any, found: Any) -> set[str]:
    """Return the names of the fields and methods of a class that are shown in another way, or not at all."""
    parts = [(one, other) for one, other in zip(shown, found, strict=True) if isinstance(one, dict)]
    return {name for one, other in parts for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_every_exported_name_is_there() -> None:
    """What `refold` exports stands in the first table, and its section exists."""
    rows = [cells for cells in table_rows(prose(PYTHON)) if cells[0].startswith("[")]
    names = {name for cells in rows for name in re.findall(r"`([^`]+)`", cells[0])}

    assert names == set(refold.__all__)
    assert {cells[0].rpartition("(#")[2].rstrip(")") for cells in rows} <= anchors(PYTHON)


# Where users may import from: the package, the facades, and what a how-to imports from.
PUBLIC = ("", ".chat", ".pool", ".window", ".trajectory", ".infrastructure.exchange", ".infrastructure.importing")
# These are for the store and for importers, or no annotation needs them: a FrozenList is a list.
INNER = """
    Attachment ChatState ChatView Encoding FrozenDict FrozenList Held Items Journal LiveLog Log
    NewEvents Outcome Place Ref RoundRecord Row Segment StoreRecorder ToolDecorator Trace Transcript WindowState
"""


def test_every_class_of_a_signature_is_exported() -> None:
    """Users annotate functions of their own with what public calls take and return, and need no inner module."""
    public = [importlib.import_module(f"refold{name}") for name in PUBLIC]
    exported = {str(getattr(getattr(one, name), "__name__", name)) for one in public for name in one.__all__}
    classes = {name for name, found in defined().items() if any(isinstance(node, ast.ClassDef) for _, node in found)}
    parts = [part for node in documented().values() for part in ast.walk(node)]
    annotations = [getattr(part, field, None) for part in parts for field in ("annotation", "returns")]
    named = {name.id for one in annotations if one is not None for name in ast.walk(one) if isinstance(name, ast.Name)}

    assert (named & classes) - exported == set(INNER.split())


def test_the_tree_of_errors_is_that_of_the_code() -> None:
    """The drawing is the one in the docstring of the errors."""
    module = parsed(PACKAGES["refold.domain"] / "errors.py")
    drawn = (ast.get_docstring(module) or "").partition("\n\n")[2]
    (shown,) = (block.text for block in blocks(PYTHON) if block.text.startswith("RefoldError"))

    assert shown.split() == drawn.split()


def test_the_data_of_errors_are_documented() -> None:
    """What the code puts into an error stands in its row, or in that of a class above it."""
    rows = {name: cells[1] for cells in table_rows(section(PYTHON, "Errors")) for name in re.findall(r"\w+", cells[0])}
    missing = []
    for node in definitions(parsed(PACKAGES["refold.domain"] / "errors.py").body).values():
        kind = getattr(errors, node.name)
        above = {one.__name__ for one in kind.__mro__} if isinstance(kind, type) else set()
        known = " ".join(row for name, row in rows.items() if name in above or f"`{node.name}`" in row)
        given = re.findall(r"self\.([a-z]\w*)(?=[^=\n]* = )", ast.unparse(node)) if "RefoldError" in above else []
        missing += [f"{node.name}.{name}" for name in given if f"`{name}`" not in known]

    assert missing == []


def test_names_of_the_facades_are_documented() -> None:
    """What `refold.chat` and its like export stands in a document."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    words = set(re.findall(r"\w+", text))
    facades = [importlib.import_module(f"refold.{name}") for name in ("chat", "pool", "window", "trajectory")]

    assert [name for facade in facades for name in facade.__all__ if name not in words] == []


def in_words(kind: Any) -> str:
    """Return the type of a field as the document has it: what limits its values is left out."""
    inner = get_args(kind)
    if get_origin(kind) is Annotated:
        return in_words(inner[0])
    if get_origin(kind) in (Union, UnionType):
        return "ChatItemEvent" if inner == get_args(ChatItemEvent) else " | ".join(map(in_words, inner))
    if get_origin(kind) is tuple:
        return f"tuple[{', '.join(map(in_words, inner))}]"
    return {NoneType: "None", ...: "..."}.get(kind) or str(kind.__name__)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_events_have_the_documented_fields(struct: type[msgspec.Struct]) -> None:
    """Names, types and defaults of fields in their stored order, and the tag."""
    text = section(STORED, struct.__name__)
    rows = [tuple(cell.strip("`") for cell in cells[:3]) for cells in table_rows(text)]
    tag = struct.__struct_config__.tag

    assert rows == [
        (field.name, in_words(field.type), "required" if field.required else repr(field.default).replace("'", '"'))
        for field in msgspec.structs.fields(struct)
    ]
    assert tag is None or text.strip().startswith(f"`{tag}`.")


RENAMED = re.compile(r"ALTER TABLE (\w+) RENAME COLUMN (\w+) TO (\w+)")


def schema(database: str) -> dict[str, list[str]]:
    """Return the columns of each table of a database's schema."""
    folder = PACKAGES["refold.infrastructure"] / "log" / database
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql")))
    for table, old, new in RENAMED.findall(text):
        text = re.sub(rf"(CREATE TABLE {{p}}{table} \(.*?\n    ){old} ", rf"\g<1>{new} ", text, flags=re.DOTALL)
    return {name: re.findall(r"^ {4}([a-z]\w*) ", body, re.MULTILINE) for name, body in TABLE.findall(text)}


@pytest.mark.parametrize(("database", "title"), [("sqlite", "SQLite"), ("postgres", "PostgreSQL")])
def test_tables_have_the_documented_columns(database: str, title: str) -> None:
    """Every table of the schema is described, and no other, with all its columns in order."""
    text = section(STORED, title)
    titles = re.findall(r"^### ([a-z_]+)", text, re.MULTILINE)
    shown = {
        name: [cells[0].strip("`") for cells in table_rows(piece)]
        for name, piece in zip(titles, re.split(r"^### .*$", text, flags=re.MULTILINE)[1:], strict=False)
    }

    assert shown == schema(database)


def test_rows_of_all_projections_are_described() -> None:
    """Each projection of a store has its table in the document, those of runs together; and their number is right."""
    tables = {cells[0].strip("`") for cells in table_rows(section(STORED, "Views"))}
    names = {one.name for one in PROJECTIONS if not one.name.startswith("run_")}
    counts = re.findall(r"\b([1-9]\d*) projections\b", (STORED.parent / "command-line.md").read_text(encoding="utf-8"))

    shown = {one for one in tables if one.startswith("view_") and "..." not in one}
    assert {f"view_{name}" for name in names} == shown, f"each has a row under Views in {STORED.name}"
    assert set(counts) == {str(len(PROJECTIONS))}, "the numbers of projections in command-line.md"


def test_notes_are_described() -> None:
    """Each name of a note has its row; those of a witness stand where the witness is described."""
    shown = {cells[0].strip("`").partition("/")[0] for cells in table_rows(section(STORED, "Views"))}
    named = {
        node.value.rstrip("/")
        for path in files(PACKAGES["refold.infrastructure"] / "projecting", suffix=".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[a-z]+/", node.value)
    }

    assert {*named, ERASED, NOTE} <= shown
    assert all(f"`{one}`" in section(STORED, "Evidence") for one in (KNOWN, OUTAGE))


def limits() -> Iterator[tuple[str, str, str]]:
    """Yield the documented limits: module, name and value."""
    for name, value, module, _ in table_rows(LIMITS.read_text(encoding="utf-8")):
        yield module.strip("`"), name.strip("`"), value


def _constant(module: str, name: str) -> Any:
    if not module.startswith("refold.infrastructure.frameworks."):
        return getattr(importlib.import_module(module), name)
    # Its framework is not installed here.
    (path,) = [path for layer in LAYERS for found, path in modules(layer) if found == module]
    values = [one for one in parsed(path).body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name]
    return ast.literal_eval(values[0].value)


def test_limits_have_the_documented_values() -> None:
    """A constant that was changed is changed in the table as well."""
    rows = list(limits())
    wrong = [
        (module, name, value) for module, name, value in rows if f"{_constant(f'refold.{module}', name):,}" != value
    ]

    assert wrong == []
    assert len({(module, name) for module, name, _ in rows}) == len(rows)


def test_every_named_limit_is_documented() -> None:
    """What the code calls a maximum stands in the table."""
    shown = {(module, name) for module, name, _ in limits()}
    named = {
        (module.removeprefix("refold."), target.id)
        for layer in LAYERS
        for module, path in modules(layer)
        for statement in parsed(path).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id.endswith("_MAX")
    }

    assert named - shown == set()


def test_the_documents_name_existing_modules() -> None:
    """Files that the documents name in code, with a folder in front, are there."""
    folders = ("domain/", "projections/", "infrastructure/", "src/", "tests/", "scripts/", "docs/")
    missing = [
        span
        for path in (ROOT / "ARCHITECTURE.md", *Path(ROOT / "docs").rglob("*.md"))
        for span in re.findall(r"`([\w./-]+)`", prose(path))
        if span.startswith(folders) and not (ROOT / span).exists()
    ]

    assert missing == []


def test_the_architecture_names_files_and_folders() -> None:
    """A file that stands without its folder lies below one that its row names; no folder of the code is left out."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for cells in table_rows(text):
        spans = re.findall(r"`([\w./-]+)`", " ".join(cells))
        folders = [ROOT / span.rpartition("/")[0] for span in spans if "/" in span]
        there = {path.name for folder in folders for path in files(folder)}
        missing += [span for span in spans if re.fullmatch(r"\w+\.(py|js|sql)", span) and span not in there]
    of_code = {path.parent for layer in LAYERS for _, path in modules(layer)}
    # Those of providers have the same files.
    unnamed = {one.name for one in of_code if one.parent.name != "formats" and f"{one.name}/" not in text}

    assert missing == []
    assert unnamed == set()


ASKED: dict[str, dict[str, tuple[str, Mapping[str, str]]]] = {
    "Questions": {name: (one.about, one.parameters) for name, one in QUESTIONS.items()},
    "Changes": {name: (one.about, one.fields) for name, one in CHANGES.items()},
    "Jobs": {name: (one.about, one.fields) for name, one in TASKS.items()},
}


@pytest.mark.parametrize("title", ASKED)
def test_what_may_be_asked_of_the_page_is_documented(title: str) -> None:
    """Each question, change and job has its row, which begins with its line, and has all that may be given."""
    shown = {cells[0].strip("`"): cells[1:3] for cells in table_rows(section(API, title))}
    wrong = [
        name
        for name, (about, given) in ASKED[title].items()
        if not shown[name][0].startswith(about.rstrip("."))
        or shown[name][1] != "; ".join(f"`{one}`: {line}" for one, line in given.items())
    ]

    assert wrong == []
    assert shown.keys() - ASKED[title].keys() <= {"meta", "jobs", "tail"}
