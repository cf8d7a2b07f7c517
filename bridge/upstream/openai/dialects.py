"""What each kind of server accepts and sends, as data. A new dialect is a row here; no code asks its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

from bridge.upstream.openai import thinking
from bridge.upstream.openai.call_ids import CallId, keep_id, nine_characters
from bridge.upstream.openai.counting import BY_MESSAGES, BY_TEMPLATE, CountMethod
from bridge.upstream.openai.thinking import Switch


class ReasoningBack(Enum):
    """Whether the thoughts of earlier turns go back to the server."""

    NEVER = auto()
    WITH_CALLS = auto()  #: on messages with calls, also if there are none
    ALWAYS = auto()


class JsonAnswers(Enum):
    SCHEMA = auto()  #: `response_format` of the type json_schema
    OBJECT = auto()  #: json_object; the schema goes into the instruction
    NONE = auto()  #: JSON is asked for in the instruction


#: Gemini's settings and their fields; what a dialect lacks is a counted loss.
COMMON_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "temperature",
        "topP": "top_p",
        "stopSequences": "stop",
        "presencePenalty": "presence_penalty",
        "frequencyPenalty": "frequency_penalty",
        "seed": "seed",
        "candidateCount": "n",
        "responseLogprobs": "logprobs",
        "logprobs": "top_logprobs",
        "maxOutputTokens": "max_tokens",
    }
)
TOP_K: Mapping[str, str] = MappingProxyType({**COMMON_FIELDS, "topK": "top_k"})


def _without(fields: Mapping[str, str], *names: str, **renamed: str) -> Mapping[str, str]:
    kept = {name: wire for name, wire in fields.items() if name not in names}
    return MappingProxyType({**kept, **renamed})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    base_url: str = ""  #: empty: the row must set it
    auth_header: str = "Authorization"
    auth_prefix: str = "Bearer "
    fields: Mapping[str, str] = field(default_factory=lambda: COMMON_FIELDS)
    stream_options: bool = True  #: it accepts the request for usage in a stream
    thinking: Switch | None = None
    reasoning_field: str = "reasoning_content"  #: of an earlier message
    reasoning_back: ReasoningBack = ReasoningBack.NEVER
    text_only: bool = False  #: the content of a message is a plain string, so without media
    image_addresses: bool = True  #: it fetches images at https addresses
    audio: bool = False
    files: bool = False  #: it reads PDF files
    json_answers: JsonAnswers = JsonAnswers.SCHEMA
    any_tool: str = "required"  #: the word that forces a call
    named_tool: bool = True  #: it accepts the name of the tool to call
    call_id: CallId = keep_id
    count: CountMethod | None = None  #: None: tokens are estimated
    #: A delta that repeats at least so many characters from the start holds the text so far, not more text.
    cumulative_from: int = 4


OPENAI = Dialect(
    base_url="https://api.openai.com/v1",
    fields=_without(COMMON_FIELDS, maxOutputTokens="max_completion_tokens"),
    thinking=thinking.by_effort,
    audio=True,
    files=True,
)
VLLM = Dialect(
    base_url="http://127.0.0.1:8000/v1",
    fields=TOP_K,
    thinking=thinking.by_template,
    reasoning_field="reasoning",
    reasoning_back=ReasoningBack.WITH_CALLS,
    audio=True,
    count=BY_MESSAGES,
)
LLAMACPP = Dialect(
    base_url="http://127.0.0.1:8080/v1",
    fields=TOP_K,
    thinking=thinking.by_template,
    reasoning_back=ReasoningBack.WITH_CALLS,
    audio=True,
    named_tool=False,
    count=BY_TEMPLATE,
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "openai": OPENAI,
        "vllm": VLLM,
        "sglang": replace(
            VLLM, base_url="http://127.0.0.1:30000/v1", reasoning_field="reasoning_content", audio=False
        ),
        "llamacpp": LLAMACPP,
        "lmstudio": Dialect(
            base_url="http://127.0.0.1:1234/v1",
            fields=TOP_K,
            thinking=thinking.by_effort,
            image_addresses=False,
            named_tool=False,
        ),
        "deepseek": Dialect(
            base_url="https://api.deepseek.com",
            fields=_without(COMMON_FIELDS, "seed", "candidateCount"),
            thinking=thinking.by_type,
            reasoning_back=ReasoningBack.WITH_CALLS,
            text_only=True,
            json_answers=JsonAnswers.OBJECT,
        ),
        "dashscope": Dialect(
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            fields=_without(TOP_K, "frequencyPenalty"),
            thinking=thinking.by_flag,
            reasoning_back=ReasoningBack.WITH_CALLS,
            json_answers=JsonAnswers.OBJECT,
            any_tool="auto",
            cumulative_from=1,
        ),
        "openrouter": Dialect(
            base_url="https://openrouter.ai/api/v1",
            fields=_without(TOP_K, "candidateCount"),
            thinking=thinking.by_reasoning_object,
            reasoning_field="reasoning",
            reasoning_back=ReasoningBack.WITH_CALLS,
            audio=True,
            files=True,
        ),
        "azure": replace(OPENAI, base_url="", auth_header="api-key", auth_prefix="", files=False),
        "mistral": Dialect(
            base_url="https://api.mistral.ai/v1",
            fields=_without(COMMON_FIELDS, "responseLogprobs", "logprobs", seed="random_seed"),
            stream_options=False,
            thinking=thinking.by_high_effort,
            any_tool="any",
            call_id=nine_characters,
        ),
    }
)
