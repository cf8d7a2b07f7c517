"""Models that write their tool calls or their thoughts as text.

`request_in_text` describes the tools in the instruction and writes the calls and results of the history as
text. The AnswerReader finds calls and thoughts in the answer and turns them into Gemini's own parts, so the
other layers do not notice the difference.
"""

from __future__ import annotations

from bridge.text_tools.answer_reader import AnswerReader
from bridge.text_tools.request_in_text import RequestInText, request_in_text

__all__ = ["AnswerReader", "RequestInText", "request_in_text"]
