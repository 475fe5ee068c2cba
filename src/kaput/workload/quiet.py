"""A logger for librdkafka that keeps its connection troubles off the terminal."""

from __future__ import annotations

import logging


def quiet_logger() -> logging.Logger:
    """librdkafka logs every refused connection: thousands of lines in a failover."""
    logger = logging.getLogger("kaput.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
