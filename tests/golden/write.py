"""
Writes the golden files of new tags, and of new versions of projections: `python -m tests.golden.write`.

Existing files stay as they are.
"""

from .files import FOLDER, current_tags, known_events, write_missing


def main() -> None:
    """Write what is missing, and name the tags that known.py has no events of."""
    for path in write_missing():
        print(f"written: {path.relative_to(FOLDER)}")
    for tag in sorted(current_tags() - set(known_events())):
        print(f"no known event of {tag}: add one to tests/golden/known.py")


if __name__ == "__main__":
    main()
