"""Replaces secrets in requests by a marker: API keys of common services, keys of this bridge, private keys.

Only strings with an unmistakable format are replaced; looser patterns would remove ordinary words.
"""

from __future__ import annotations

import re
from dataclasses import replace

from bridge.gemini.types import Content, FunctionCall, FunctionResponse, GenerateRequest, Part
from bridge.guards.base import Guard
from bridge.guards.map_texts import map_texts

MARK = "[secret removed]"
MAX_DEPTH = 32

SECRETS = re.compile(
    r"AIza[0-9A-Za-z_\-]{35}"  # Google
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS
    r"|\bgh[pousr]_[0-9A-Za-z]{36,255}\b|\bgithub_pat_[0-9A-Za-z_]{22,255}\b|\bglpat-[0-9A-Za-z_\-]{20,}"
    r"|\bxox[abposr]-[0-9A-Za-z\-]{10,}"  # Slack
    r"|\bsk-(?:ant|proj|svcacct|admin|or)-[0-9A-Za-z_\-]{20,}|\bsk-[0-9A-Za-z]{32,}"  # OpenAI, Anthropic
    r"|\bgbk_[0-9A-Za-z]{38}\b"  # keys of this bridge
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
    r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)


class SecretRedaction(Guard):
    name = "secrets"

    def on_request(self, request: GenerateRequest) -> GenerateRequest:
        contents = tuple(map(_redact_content, request.contents))
        system = None if request.system is None else _redact_content(request.system)
        if contents == request.contents and system == request.system:
            return request
        return replace(request, contents=contents, system=system)


def _redact_content(content: Content) -> Content:
    return replace(content, parts=tuple(map(_redact_part, content.parts)))


def _redact_part(part: Part) -> Part:
    match part.data:
        case str() as text:
            return replace(part, data=redact(text))
        case FunctionCall() as call:
            return replace(part, data=replace(call, args=map_texts(call.args, redact, MAX_DEPTH)))
        case FunctionResponse() as response:
            return replace(
                part, data=replace(response, response=map_texts(response.response, redact, MAX_DEPTH))
            )
        case _:
            return part


def redact(text: str) -> str:
    return SECRETS.sub(MARK, text)
