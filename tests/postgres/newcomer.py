"""A process that opens a log, appends to a stream and says what version it has reached."""

from refold.infrastructure.log.postgres.log import PostgresLog
from tests.contract.writing import append, said


def main(url: str, stream: str) -> None:
    """Append one event."""
    log = PostgresLog(url)
    append(log, stream, said(1))
    print(log.head(stream))
    log.close()
