"""
Replay the original systems' recorded answers and say, case by case, where ours differ: parity.py FILE...

The form of a file is recognised by its content. For each case a line is printed: the file, the case, and "equal",
"unexplained", or the numbers of the deviations (docs/deviations.md) that compute our answers. A case that was not
replayed is reported as such.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The replayers are beside the tests, which check them. When this file runs as a script, Python searches only
    # scripts/.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

    from tests.support.parity.replayers import REPLAYERS
    from tests.support.parity.replaying import main

    sys.exit(main(sys.argv[1:], replayers=REPLAYERS))
