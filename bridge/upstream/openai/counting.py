"""The calls by which a server counts the tokens of a request."""

from __future__ import annotations

from enum import Enum, auto


class CountMethod(Enum):
    MESSAGES = auto()  #: POST /tokenize takes the messages and the tools
    TEMPLATE = auto()  #: POST /apply-template makes the prompt, and POST /tokenize splits it
