"""What the tests read out of a document: code blocks, links, headings and tables."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.project import ROOT, files

FENCE = "```"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"#{1,6} +(.+)")
CODE_SPAN = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """A fenced block: the words behind its fence, the line its text starts at, and the text."""

    info: tuple[str, ...]
    line: int
    text: str

    @property
    def language(self) -> str:
        """The first word behind the fence."""
        return self.info[0] if self.info else ""


def documents() -> list[Path]:
    """List all documents of the project."""
    return [*sorted(ROOT.glob("*.md")), *files(ROOT / "docs", suffix=".md")]


def name_of(path: Path) -> str:
    """Return a document's path as the tests' names show it."""
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document, in order."""
    found: list[Block] = []
    inside: list[str] | None = None
    info, start = "", 0
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.startswith(FENCE):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside, info, start = [], line.removeprefix(FENCE), number + 1
        else:
            found.append(Block(tuple(info.split()), start, "".join(f"{one}\n" for one in inside)))
            inside = None
    assert inside is None, f"{name_of(path)}: the block at line {start} has no end"
    return found


def prose(path: Path) -> str:
    """Return a document's text without its blocks."""
    parts = re.split(rf"^{FENCE}.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return "".join(parts[::2])


def links(path: Path) -> list[str]:
    """Return where a document's links lead to."""
    return LINK.findall(CODE_SPAN.sub("", prose(path)))


def anchors(path: Path) -> set[str]:
    """Return the names by which a document's headings can be linked to."""
    titles = [found.group(1) for line in prose(path).split("\n") if (found := HEADING.fullmatch(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def section(path: Path, title: str) -> str:
    """Return what stands under a heading, up to the next one of the same or a higher level."""
    lines = path.read_text(encoding="utf-8").split("\n")
    found = (number for number, line in enumerate(lines) if line.lstrip("#").strip() == title and line[:1] == "#")
    start = next(found, None)
    assert start is not None, f"{path.name} has no heading {title!r}: add the section"
    level = len(lines[start]) - len(lines[start].lstrip("#"))
    higher = re.compile(rf"#{{1,{level}}} ")
    rest = lines[start + 1 :]
    end = next((number for number, line in enumerate(rest) if higher.match(line)), len(rest))
    return "\n".join(rest[:end])


def table_rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of all table rows in a text, headings and rules left out."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not _is_rule(line) and not _is_rule(following):
            # A bar within code is written `\|`.
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _is_rule(line: str) -> bool:
    return bool(re.fullmatch(r"\|[\s:|-]+\|", line))
