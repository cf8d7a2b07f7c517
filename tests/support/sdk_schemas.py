"""The types of the official SDKs as schemas, so that they are checked as the vendors' documents are.

The SDKs let everything pass: they construct without checking and keep unknown fields. As a schema the same
types say what is required, of which type it is, and which properties there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import anthropic.types as anthropic_types
import anthropic.types.beta as anthropic_beta
import openai.types as openai_types
import openai.types.chat as openai_chat
import openai.types.conversations as openai_conversations
import openai.types.responses as openai_responses
from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import message_create_params as beta_create_params
from google.genai import interactions as google_interactions
from google.genai import types as google_types
from pydantic import TypeAdapter
from typing_extensions import TypedDict
from vendor_schemas import REFERENCES, VendorSchemas


class GoogleError(TypedDict):
    """Google's envelope of an error, for which the SDK has no type of its own."""

    error: google_types.GoogleRpcStatus


#: For each SDK the types that the bridge sends or receives, by the name used in the tests.
TYPES: Mapping[str, Mapping[str, Any]] = {
    "openai_sdk": {
        "Response": openai_responses.Response,
        "ResponseStreamEvent": openai_responses.ResponseStreamEvent,
        "ResponseItemList": openai_responses.ResponseItemList,
        "ChatCompletion": openai_chat.ChatCompletion,
        "ChatCompletionChunk": openai_chat.ChatCompletionChunk,
        "Model": openai_types.Model,
        "Completion": openai_types.Completion,
        "CreateEmbeddingResponse": openai_types.CreateEmbeddingResponse,
        "InputTokenCountResponse": openai_responses.InputTokenCountResponse,
        "Conversation": openai_conversations.Conversation,
        "ConversationItem": openai_conversations.ConversationItem,
        "ConversationItemList": openai_conversations.ConversationItemList,
        "ConversationDeletedResource": openai_conversations.ConversationDeletedResource,
    },
    "anthropic_sdk": {
        "Message": anthropic_types.Message,
        "MessageStreamEvent": anthropic_types.RawMessageStreamEvent,
        "MessageTokensCount": anthropic_types.MessageTokensCount,
        "ModelInfo": anthropic_types.ModelInfo,
        "ErrorResponse": anthropic_types.ErrorResponse,
        "MessageCreateParams": message_create_params.MessageCreateParams,
        "MessageCountTokensParams": message_count_tokens_params.MessageCountTokensParams,
    },
    "anthropic_beta_sdk": {
        "Message": anthropic_beta.BetaMessage,
        "MessageStreamEvent": anthropic_beta.BetaRawMessageStreamEvent,
        "MessageCreateParams": beta_create_params.MessageCreateParams,
    },
    "google_sdk": {
        "GoogleError": GoogleError,
        "GenerateContentResponse": google_types.GenerateContentResponse,
        "Interaction": google_interactions.Interaction,
        "InteractionSSEEvent": google_interactions.InteractionSSEEvent,
    },
}


@cache
def sdk_schemas(name: str) -> VendorSchemas:
    adapters = [(each, "validation", TypeAdapter(kind)) for each, kind in TYPES[name].items()]
    template = f"{REFERENCES[0]}{{model}}"
    roots, shared = TypeAdapter.json_schemas(adapters, ref_template=template)
    named = {
        each: schema
        for (each, _), schema in roots.items()
        if schema.get("$ref") != template.format(model=each)
    }
    return VendorSchemas(
        {name: _closed(schema) for name, schema in {**shared.get("$defs", {}), **named}.items()}
    )


def _closed(schema: Any) -> Any:
    """Without the permission to have more properties, which every type of the SDKs gives."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    open_ = {"additionalProperties"} if "properties" in schema else set()
    return {name: _closed(value) for name, value in schema.items() if name not in open_}
