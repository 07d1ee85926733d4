"""A process that opens a log, appends to a stream and says what version it has reached."""

import sys

from refold.infrastructure.log.postgres.log import PostgresLog
from tests.contract.writing import append, said


def main(url: str, stream: str) -> None:
    """Append one event."""
    log = PostgresLog(url)
    append(log, stream, said(1))
    print(log.head(stream))
    log.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
