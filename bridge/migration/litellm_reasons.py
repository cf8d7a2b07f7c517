"""Why a part of LiteLLM's configuration is not carried, and what the bridge has in its place."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "the bridge has no such setting"

#: The longest path that begins a part's own path decides. Numbers of list items are left out.
REASONS: Mapping[str, str] = {
    "general_settings.master_key": "the bridge has no master key; `gemini-bridge key add NAME` makes a key",
    "general_settings.database_url": "keys and spend of that database are not read; BRIDGE_STATE_URL names "
    "a PostgreSQL database for the state of the bridge",
    "general_settings.alerting": "deploy/prometheus-alerts.yml has alarms",
    "litellm_settings.drop_params": "the bridge always drops what the model has nothing like, and names it "
    "in x-bridge-losses",
    "litellm_settings.cache": "`gemini-bridge key set NAME --cache on` switches the request cache on",
    "litellm_settings.cache_params": "[cache] in local.toml has the settings of the request cache",
    "litellm_settings.callbacks": "docs/OBSERVABILITY.md: usage records, /metrics and traces",
    "litellm_settings.success_callback": "docs/OBSERVABILITY.md: usage records, /metrics and traces",
    "litellm_settings.failure_callback": "docs/OBSERVABILITY.md: usage records, /metrics and traces",
    "litellm_settings.set_verbose": "log.debug in local.toml, for a short time",
    "litellm_settings.fallbacks": "`fallbacks` in the [[model]] row of models.toml",
    "router_settings.fallbacks": "`fallbacks` in the [[model]] row of models.toml",
    "litellm_settings.default_fallbacks": "`fallbacks` in the [[model]] rows of models.toml",
    "litellm_settings.context_window_fallbacks": "context.compress in local.toml shortens conversations",
    "router_settings.context_window_fallbacks": "context.compress in local.toml shortens conversations",
    "router_settings.routing_strategy": "conversations are divided by weight, and stay where they began",
    "router_settings.redis": "the bridge needs no Redis",
    "guardrails": "docs/GUARDS.md lists the guards of the bridge",
    "environment_variables": "set the variable in the environment of the bridge",
    "mcp_servers": "the bridge has no counterpart in this file",
    "model_list.litellm_params.rpm": "limits are set for a key (`--rpm`) or for all ([limits])",
    "model_list.litellm_params.tpm": "limits are set for a key (`--tpm`) or for all ([limits])",
    "model_list.litellm_params.max_parallel_requests": "limits.streams, or `--streams` of a key",
    "model_list.litellm_params.input_cost_per_token": "prices.toml has the prices, per million tokens",
    "model_list.litellm_params.output_cost_per_token": "prices.toml has the prices, per million tokens",
    "model_list.litellm_params.api_version": "the address of Azure needs no api-version",
    "model_list.model_info": "models.toml describes what a model can do, prices.toml what it costs",
}


def reason(path: tuple[str | int, ...]) -> str:
    names = [each for each in path if isinstance(each, str)]
    for length in range(len(names), 0, -1):
        if found := REASONS.get(".".join(names[:length])):
            return found
    if names[:1] == ["router_settings"] and names[1:] and names[1].startswith("redis"):
        return REASONS["router_settings.redis"]
    return UNKNOWN
