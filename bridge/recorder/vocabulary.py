"""The words that a flight of the level `shape` may contain: names of fields, and values of enumerations.

All of them are words of the protocols. A word that is not listed here is taken for text of a user.
"""

from __future__ import annotations

from bridge.recorder.request_headers import RECORDED_HEADERS, RECORDED_PARAMETERS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Names of fields in the bodies of all protocols, in answers too.
FIELDS = _words(
    """
    @type additionalProperties agent allowedFunctionNames allowed_function_names allowed_tools annotations
    args arguments aspectRatio aspect_ratio attempt background best_of blockReason blocked body
    budget_tokens cache_control cache_creation cache_creation_input_tokens cache_read_input_tokens
    cachedContent cachedContentTokenCount cached_content cached_tokens call call_id candidateCount
    candidates candidatesTokenCount candidatesTokensDetails cacheTokensDetails category caller channels
    choices chunk citationMetadata citations client_metadata code codeExecution codeExecutionResult
    command completed_at completion_tokens completion_tokens_details computerUse container container_id
    content contentIndex content_block content_filter_results content_index contents context
    context_management continuation_token conversation created created_at custom data defer_loading
    definition delta depth description detail details disable_parallel_tool_use display echo edits effort
    enabled encrypted_content endOffset end_index end_offset env environment error errors event_id
    event_type exclude_domains executableCode execution explanation external_web_access extra_content
    field fieldViolations file fileData fileSearch fileSearchStoreNames fileUri file_data file_id
    file_path file_search_store_names file_uri file_url filename finishMessage finishReason finish_reason
    format fps frequencyPenalty frequency_penalty function functionCall functionCallingConfig
    functionDeclarations functionResponse function_call function_calling_config function_declarations
    function_response functions generate_summary generationConfig generation_config google googleMaps
    googleSearch google_search grammar groundingChunks groundingMetadata groundingSupports
    grounding_metadata headers id image imageConfig imageSearch imageSize image_config image_size
    image_tokens image_url images include includeServerSideToolInvocations includeThoughts
    include_obfuscation include_thoughts include_usage incomplete_details index inlineData inline_data
    input input_audio input_schema input_tokens input_tokens_details instructions interaction
    interaction_id is_error item item_id json_schema keep labels language latLng latitude len level
    logit_bias logprobs logs longitude maxOutputTokens max_completion_tokens max_content_tokens
    max_output_tokens max_tokens max_tool_calls max_uses mcp_servers mediaResolution media_type message
    messages metadata metadataFilter metadata_filter method mimeType mime_type modalities modality mode
    model modelVersion model_version n name namespace notes object outcome output output_config
    output_index output_text output_tokens output_tokens_details outputs page_age parallel_tool_calls
    param parameters parametersJsonSchema parameters_json_schema part partMetadata partial_json parts path
    phase prediction presencePenalty presence_penalty previous_response_id probability processing prompt
    promptFeedback promptTokenCount promptTokensDetails prompt_cache_key prompt_cache_retention
    prompt_tokens prompt_tokens_details properties queries query raw reasoning reasoning_content
    reasoning_effort reasoning_tokens redacted_thinking refusal required resolution response responseId
    responseJsonSchema responseLogprobs responseMimeType responseModalities responseSchema response_format
    response_id response_mime_type response_modalities result results retrievalConfig return_code role
    safetyRatings safetySettings safety_identifier safety_settings sample_rate schema searchEntryPoint
    searchTypes search_context_size search_results search_types seed sequence_number server_label
    server_name server_tool_use server_url serviceTier service_tier session_id signature source sources
    speechConfig speech_config startOffset start_index start_offset status stderr stdout step stop
    stopSequences stop_details stop_reason stop_sequence stop_sequences store stream stream_options strict
    suffix summary summary_index syntax system systemInstruction system_fingerprint system_instruction
    temperature text thinking thinkingBudget thinkingConfig thinkingLevel thinking_budget thinking_config
    thinking_level thinking_summaries thought thoughtSignature thought_signature thoughtsTokenCount
    threshold timeout_ms title tokenCount toolCall toolConfig toolResponse toolType
    toolUsePromptTokenCount toolUsePromptTokensDetails tool_call_id tool_calls tool_choice tool_config
    tool_name tool_use_id tools topK topP top_k top_logprobs top_p totalTokenCount total_cached_tokens
    total_input_tokens total_output_tokens total_thought_tokens total_tokens total_tool_use_tokens
    trafficType truncation ttl type uri uris url urlContext urlContextMetadata usage usageMetadata
    use_cache user vector_store_ids verbosity video videoMetadata video_url voice web webSearch
    webSearchQueries web_fetch_requests web_search_options web_search_requests upstream_model
    """
) | {*RECORDED_HEADERS, *RECORDED_PARAMETERS}

#: The fields whose values are words of an enumeration.
CHOOSING = _words(
    """
    @type blockReason category effort event_type finishReason finish_reason format language method
    mimeType media_type mime_type modality mode object outcome phase probability reasoning_effort role
    serviceTier service_tier status stop_reason summary thinkingLevel thinking_level threshold toolType
    tool_choice truncation trafficType type verbosity detail alt
    """
)

CHOICES = _words(
    """
    ANY AUDIO AUTO BLOCKLIST BLOCK_LOW_AND_ABOVE BLOCK_MEDIUM_AND_ABOVE BLOCK_NONE BLOCK_ONLY_HIGH
    DOCUMENT FAILED_PRECONDITION HARM_CATEGORY_DANGEROUS_CONTENT HARM_CATEGORY_HARASSMENT
    HARM_CATEGORY_HATE_SPEECH HARM_CATEGORY_SEXUALLY_EXPLICIT HIGH IMAGE IMAGE_SAFETY INTERNAL
    INVALID_ARGUMENT LANGUAGE LOW MALFORMED_FUNCTION_CALL MAX_TOKENS MEDIUM MINIMAL NEGLIGIBLE NONE OFF
    ON_DEMAND OTHER OUTCOME_DEADLINE_EXCEEDED OUTCOME_FAILED OUTCOME_OK PROHIBITED_CONTENT PYTHON
    RECITATION RESOURCE_EXHAUSTED SAFETY SPII STOP STRING TEXT UNAVAILABLE UNEXPECTED_TOOL_CALL VALIDATED
    VIDEO adaptive additional_tools agent_message allowed_tools any api_error application/json
    application/pdf approximate arguments_delta array assistant audio audio/mp3 audio/mpeg audio/wav auto
    base64 boolean bash_code_execution_result bash_code_execution_tool_result chat.completion
    chat.completion.chunk clear_thinking_20251015 clear_tool_uses_20250919 code_execution
    code_execution_call code_execution_result code_execution_tool_result code_interpreter
    code_interpreter_call compaction compaction_summary compaction_trigger completed computer_use concise
    content content_block_delta content_block_start content_block_stop content_filter context_compaction
    critical custom custom_tool_call custom_tool_call_output default detailed developer disabled document
    enabled end_turn ephemeral error fast file file_search final_answer flex float function function_call
    function_call_output function_result generateContent google_maps google_search google_search_call
    google_search_result grammar high image image/gif image/jpeg image/png image/webp image_generation
    image_generation_call image_url in_progress incomplete input_audio input_file input_image
    input_json_delta input_text input_video integer interaction interaction.completed interaction.created
    interaction.status_update invalid_request_error json_object json_schema length list local_shell
    local_shell_call local_shell_call_output logs low max_tokens mcp mcp_server mcp_server_tool_call
    mcp_tool_result mcp_tool_use medium message message_delta message_start message_stop minimal model
    model_output namespace none number object original output_text priority reasoning redacted_thinking
    refusal required requires_action response response.completed response.content_part.added
    response.content_part.done response.created response.done response.failed
    response.function_call_arguments.delta response.function_call_arguments.done response.in_progress
    response.incomplete response.output_item.added response.output_item.done response.output_text.delta
    response.output_text.done response.reasoning_summary_part.added response.reasoning_summary_part.done
    response.reasoning_summary_text.delta response.reasoning_summary_text.done response.refusal.delta
    response.refusal.done retrieval scale search search_result server_error server_tool_use
    signature_delta sse standard standard_only step.delta step.start step.stop stop streamGenerateContent
    string summary_text system text text/plain text_annotation_delta text_completion text_delta thinking
    thinking_delta thought thought_signature thought_summary tool tool_calls tool_reference tool_result
    tool_search tool_search_call tool_search_output tool_use url url_citation url_context user user_input
    video video/mp4 video_url web_search web_search_20250305 web_search_call web_search_preview
    web_search_result web_search_tool_result xhigh
    """
)

#: The fields that contain the name of a model.
MODELS = frozenset({"model", "modelVersion", "model_version", "upstream_model"})
#: The fields that contain the name of a tool, or an id of it.
TOOL_NAMES = frozenset({"name", "tool_name", "allowedFunctionNames", "allowed_function_names"})

#: Objects below these fields belong to users: arguments, results, schemas. Only their size is kept.
OPAQUE = _words(
    """
    additionalProperties args arguments client_metadata env input input_schema labels logit_bias metadata
    parameters parametersJsonSchema parameters_json_schema partMetadata properties response
    responseJsonSchema responseSchema result schema
    """
)
