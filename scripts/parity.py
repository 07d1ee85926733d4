"""
Replay the original systems' recorded answers and say, case by case, where ours differ: parity.py FILE...

A file's form is told by its content. For each case a line is printed: the file, the case, and equal, unexplained, or
the numbers of the deviations (docs/deviations.md) that compute our answers. What was not replayed is said to be so.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The replayers lie beside the tests, which hold them to account; run as a script, only scripts/ is looked into.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

    from tests.support.parity.replayers import REPLAYERS
    from tests.support.parity.replaying import main

    sys.exit(main(sys.argv[1:], replayers=REPLAYERS))
