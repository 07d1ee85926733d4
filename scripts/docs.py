"""
Writes the pages of the site of documents: the documents as they are, and pages of the public names.

The navigation has the order of docs/README.md. `scripts/docs` calls it, and with --check to look at the built site.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE")
FOLDERS = ("docs", "examples")
NAMES = "docs/reference/names"
# The modules that programs import from, each a page. Adapters are read, and not imported: they need their frameworks.
MODULES = ("refold", "refold.chat", "refold.pool", "refold.window", "refold.trajectory")
LINK = re.compile(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)")
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
# A block of code with the name of its file, or with the label that the tests use for it.
FENCE = re.compile(r"^(```\w+) (\S.*)$", re.MULTILINE)
# Addresses that a page loads; a link that a reader may follow loads nothing.
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*stylesheet[^>]*href=["']?https?:|@import|url\(["']?https?:"""
)


def lay_out(target: Path) -> None:
    """Write the pages and the configuration into a folder, which is made anew."""
    shutil.rmtree(target, ignore_errors=True)
    pages = target / "pages"
    pages.mkdir(parents=True)
    for name in BESIDE:
        shutil.copy(ROOT / name, pages / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, pages / name, ignore=shutil.ignore_patterns("__pycache__", "constraints.txt"))
    for path in pages.rglob("*.md"):
        path.write_text(FENCE.sub(r'\1 title="\2"', path.read_text(encoding="utf-8")), encoding="utf-8")
    (pages / NAMES).mkdir(parents=True)
    shown: set[str] = set()
    for module in (*MODULES, *adapters()):
        (pages / NAMES / f"{module}.md").write_text(page_of(module, shown), encoding="utf-8")
    text = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: pages\nnav:\n" + "\n".join(navigation(pages)) + "\n"
    (target / "mkdocs.yml").write_text(text, encoding="utf-8")


def adapters() -> list[str]:
    """Return the facades of adapters: the modules of the package that only name what another module has."""
    known = {module.rpartition(".")[2] for module in MODULES}
    found = (path.stem for path in sorted((ROOT / "src/refold").glob("*.py")) if not path.stem.startswith("_"))
    return [f"refold.{name}" for name in found if name not in known]


def page_of(module: str, shown: set[str]) -> str:
    """Return a page with the docstrings of the names of a module; those that an earlier page has shown are links."""
    lines = [f"# {module}", ""]
    if module in MODULES:
        facade = importlib.import_module(module)
        for name in facade.__all__:
            thing = getattr(facade, name)
            home, own = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
            if f"{home}.{own}" in shown:
                lines += [f"- [`{name}`][{home}.{own}]", ""]
            elif home and own and is_written(home, own):
                shown.add(f"{home}.{own}")
                renamed = [] if own == name else ["    options:", f"      heading: {name}"]
                lines += [f"::: {home}.{own}", *renamed, ""]
            else:
                # It is made when it is imported, as a type alias or an async sibling is.
                said = inspect.getdoc(thing) if callable(thing) else f"`{thing}`"
                lines += [f"## `{name}`", "", said or "", ""]
        return "\n".join(lines)
    text = (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    for home, names in re.findall(r"^from (refold\.[\w.]+) import \(?([^)\n]+|[^)]+)\)?$", text, re.MULTILINE):
        for name in re.findall(r"\w+", names):
            lines += [f"::: {home}.{name}", ""]
    return "\n".join(lines)


def is_written(module: str, name: str) -> bool:
    """Return whether the source of a module defines a class or a function, so that it can be read there."""
    path = ROOT / "src" / f"{module.replace('.', '/')}.py"
    defined = re.compile(rf"^(?:async )?(?:class|def) {re.escape(name)}\b", re.MULTILINE)
    return path.exists() and defined.search(path.read_text(encoding="utf-8")) is not None


def navigation(pages: Path) -> list[str]:
    """Return the lines of the navigation: the sections of docs/README.md, and in each the documents that it lists."""
    text = (pages / "docs/README.md").read_text(encoding="utf-8")
    lines = ["  - README.md", "  - docs/README.md"]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, listed = section.partition("\n")
        lines.append(f"  - {heading.strip()}:")
        for link in dict.fromkeys(LINK.findall(listed)):
            path = (pages / "docs" / link).resolve().relative_to(pages.resolve())
            lines.append(f"      - {path}")
        if heading.strip() == "Reference":
            lines.append("      - Names:")
            lines += [f"          - {NAMES}/{module}.md" for module in (*MODULES, *adapters())]
        elif heading.strip() == "Explanation":
            lines.append("      - Decisions, one by one:")
            records = sorted((pages / "docs/adr").glob("0*.md"))
            lines += [f"          - docs/adr/{path.name}" for path in records] + ["      - CHANGELOG.md"]
    return lines


def faults_of(site: Path) -> list[str]:
    """Return the pages of a built site that load something from elsewhere, or have no search."""
    faults = [
        f"{path.relative_to(site)} loads something from elsewhere"
        for path in sorted((*site.rglob("*.html"), *site.rglob("*.css")))
        if LOADED.search(path.read_text(encoding="utf-8"))
    ]
    return faults + ([] if (site / "search/search_index.json").exists() else ["there is no index of the search"])


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit("\n".join(faults_of(Path(sys.argv[2]))) or None)
    lay_out(Path(sys.argv[1]))
