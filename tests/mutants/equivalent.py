"""Defects that no test can notice, by file and by the line with the defect in it, each with the reason."""

EQUIVALENT = {
    ("infrastructure/log/postgres/planning.py", 'chance = int.from_bytes(os.urandom(11), "big")'): (
        "the number of random bits beyond those that are used does not matter"
    ),
}
