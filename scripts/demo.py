"""
A tour of Refold: it imports a transcript, and shows its past.

Runs the real commands in a fresh folder and shows what they print. An argument is a transcript of your own (a list
of OpenAI messages, JSON Lines, or tau-bench results); without one, a small one is made up.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import refold
from refold.infrastructure.importing import read_runs

ROOT = Path(__file__).resolve().parents[1]
REFOLD = [sys.executable, "-m", "refold"]
COLUMNS = "100"


class Demo:
    """The folder in which commands are run, one after the other; the first that fails ends it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if name != "REFOLD_DB"}
        self.environment = {"COLUMNS": COLUMNS, **kept, "PYTHONIOENCODING": "utf-8"}

    def explain(self, text: str) -> None:
        """Say what comes next."""
        print(f"\n# {text}", flush=True)

    def show(self, *arguments: str) -> None:
        """Run a command for everybody to see."""
        print(f"$ refold {shlex.join(arguments)}", flush=True)
        subprocess.run([*REFOLD, *arguments], cwd=self.folder, env=self.environment, check=True)

    def ask(self, *arguments: str) -> Any:
        """Run a command for its JSON."""
        command = [*REFOLD, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)


def refold_command() -> str:
    """Return how `refold` is called from here: its path, where it is not on the user's own."""
    beside = Path(sys.executable).parent / "refold"
    return "refold" if shutil.which("refold") or not beside.exists() else shlex.quote(os.path.relpath(beside))


def transcript_in(folder: Path, given: str | None) -> Path:
    """Return the transcript to use, made up where none is given."""
    if given is not None:
        return Path(given).resolve()
    path = folder / "airline.json"
    generator = ROOT / "examples" / "transcripts.py"
    print("$ python examples/transcripts.py airline.json", flush=True)
    subprocess.run([sys.executable, str(generator), path.name], cwd=folder, check=True)
    return path


def walk(demo: Demo, path: Path) -> None:
    """Bring the transcript in, and look at it from all sides."""
    name = path.name if path.parent == demo.folder else str(path)
    demo.explain("A transcript goes in: every conversation becomes a context, every item an event.")
    demo.show("import", name)
    demo.show("contexts")
    longest = max(demo.ask("contexts", "--json"), key=lambda context: context["items"])
    context, head = longest["id"], longest["version"]
    middle = max(2, head // 2)
    demo.explain("A context as it is: its last items, and the @version that added each.")
    demo.show("show", context, "--tail", "4")
    demo.explain("As it was: any version, time, log position or name can stand behind the @.")
    demo.show("show", f"{context}@{middle}", "--tail", "3")
    demo.explain("What came between two versions.")
    demo.show("diff", f"{context}@{middle}..{min(head, middle + 3)}")
    demo.explain("The events behind it.")
    demo.show("log", context, "--limit", "8")
    demo.explain("What if? A fork of any moment is one event; the original does not notice.")
    demo.show("fork", f"{context}@{middle}", "what-if")
    demo.explain("An item leaves the fork, and comes back: these are events, too.")
    items = [entry["item"] for entry in demo.ask("show", "what-if", "--json")["items"]]
    said = [item["id"] for item in items if item["type"] == "message"]
    demo.show("evict", "what-if", said[-1], "--reason", "a wrong turn")
    demo.show("restore", "what-if")
    demo.show("log", "what-if")
    demo.explain("The same file again adds nothing.")
    demo.show("import", name)
    demo.explain("What there is in all.")
    demo.show("stats")


def require_equal(demo: Demo, path: Path) -> int:
    """Compare what went in with what comes out, as `refold show CTX --as openai` prints it; count the conversations."""
    runs = read_runs([path])
    with refold.open(demo.folder / "refold.db", read_only=True, create=False) as store:
        for run in runs:
            if store.chat(run.context_id, create=False).to_openai_messages() != run.messages:
                raise SystemExit(f"{run.where} came out other than it went in")
    return len(runs)


def main(given: str | None = None) -> None:
    """Run the demo on a given transcript, or on one that is made up."""
    demo = Demo(Path(tempfile.mkdtemp(prefix="refold-demo-")))
    try:
        path = transcript_in(demo.folder, given)
        walk(demo, path)
        demo.explain("And it comes out as it went in.")
        print(f"{require_equal(demo, path)} conversations, as OpenAI messages, are equal to the file's.")
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"the demo stopped: a command exited with {error.returncode}") from error
    database = demo.folder / "refold.db"
    print(f"\nEverything is in {database}; look around with")
    print(f"  {refold_command()} --db {shlex.quote(str(database))} contexts")
    print(f"Your own transcript: scripts/demo FILE, or: {refold_command()} import FILE")


if __name__ == "__main__":
    main(*sys.argv[1:2])
