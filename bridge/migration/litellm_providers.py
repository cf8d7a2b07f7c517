"""LiteLLM's providers, and the kinds of upstream that reach the same servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Provider(NamedTuple):
    kind: str
    dialect: str = ""  #: of the kind `openai`
    key: str = ""  #: the variable that LiteLLM reads if the file names no key
    needs_address: bool = False


PROVIDERS: Mapping[str, Provider] = {
    "gemini": Provider("gemini", key="GEMINI_API_KEY"),
    "vertex_ai": Provider("vertex"),
    "vertex_ai_beta": Provider("vertex"),
    "ollama": Provider("ollama"),
    "ollama_chat": Provider("ollama"),
    "openai": Provider("openai", "openai", "OPENAI_API_KEY"),
    "azure": Provider("openai", "azure", "AZURE_API_KEY", needs_address=True),
    "hosted_vllm": Provider("openai", "vllm", needs_address=True),
    "lm_studio": Provider("openai", "lmstudio", needs_address=True),
    "openrouter": Provider("openai", "openrouter", "OPENROUTER_API_KEY"),
    "deepseek": Provider("openai", "deepseek", "DEEPSEEK_API_KEY"),
    "mistral": Provider("openai", "mistral", "MISTRAL_API_KEY"),
    "dashscope": Provider("openai", "dashscope", "DASHSCOPE_API_KEY"),
}


def provider_and_model(text: str) -> tuple[str, str]:
    """The two names in `gemini/gemini-pro-latest`. Without a provider, the one that LiteLLM assumes."""
    provider, slash, model = text.partition("/")
    if slash:
        return provider, model
    if text.startswith("gemini"):
        return "vertex_ai", text
    return ("anthropic", text) if text.startswith("claude") else ("openai", text)


def base_url(provider: str, address: str) -> str:
    """The address in the form that the bridge needs."""
    address = address.rstrip("/")
    if provider == "azure" and not address.endswith("/openai/v1"):
        return f"{address}/openai/v1"
    return address
