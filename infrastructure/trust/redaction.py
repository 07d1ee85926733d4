"""The hook of the process: what it is set by, and the loggers that it covers."""

from __future__ import annotations

import logging

from ...domain.arguments import require_callable
from ...domain.redaction import Redact, hide_by, redacted_text

# Each module that logs has one of these; a filter on a logger sees its own records alone.
LOGGERS = (
    "refold",
    "refold.projections",
    "refold.trajectory",
    "refold.verify",
    "refold.domain.chat.summary_texts",
    "refold.domain.chat.window",
    "refold.domain.hooks.hook",
    "refold.domain.llm.base",
    "refold.domain.llm.fallback",
    "refold.infrastructure.inspector.jobs",
    "refold.infrastructure.request_guard",
    "refold.infrastructure.frameworks.mcp.server",
)


class _Hiding(logging.Filter):
    """Puts into each record of Refold's loggers what the hook makes of its message and of its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record."""
        record.msg, record.args = redacted_text(record.getMessage()), None
        if record.exc_info:
            # A formatter uses this text in the place of its own.
            record.exc_text = redacted_text(logging.Formatter().formatException(record.exc_info))
        return True


_HIDING = _Hiding()


def redact(hook: Redact | None) -> None:
    """
    Have `hook` called with each text that leaves this process, from now on, and use the text that it returns.

    That is: requests to models, documents that are exported, answers of the Inspector and of the server for agents, and
    records of Refold's loggers. None ends this. `Redactor()` is a hook that hides keys, tokens, private keys, e-mail
    addresses and card numbers. Stored data does not change.

    Raises:
        InvalidInputError: it cannot be called.
    """
    if hook is not None:
        require_callable(hook, "the hook")
    hide_by(hook)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.removeFilter(_HIDING)
        if hook is not None:
            logger.addFilter(_HIDING)
