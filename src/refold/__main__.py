"""`python -m refold` is the `refold` command; the command line is imported only when it is run."""

import sys

if __name__ == "__main__":
    from refold.infrastructure.cli import main

    sys.exit(main())
