"""Writes a tiny model for llama.cpp: `python tiny_model.py FILE`. Its words are random letters.

The model looks at the last token only. With tools it often begins a call, whose JSON the server's grammar
completes. It runs in the environment that `make test-servers` installs.
"""

from __future__ import annotations

import sys

import gguf
import numpy as np

HEADS, FEED_FORWARD, WIDTH, WINDOW = 4, 32, 384, 16384
#: The form of calls that llama.cpp finds in templates of the Hermes kind.
TEMPLATE = """{%- if tools %}<|im_start|>system
{%- if messages[0].role == 'system' %}
{{ messages[0].content }}
{%- endif %}
The functions are in <tools></tools>.
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Call one with its name and its arguments:
<tool_call>
{"name": NAME, "arguments": ARGUMENTS}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

CONTROL = [b"<unk>", b"<s>", b"</s>", b"<|im_start|>", b"<|im_end|>"]
MARKS = [b"<tool_call>", b"</tool_call>"]
BYTES = [b"<0x%02X>" % number for number in range(256)]
CHARACTERS = [bytes([number]) for number in range(33, 127)]
SPACE = "\u2581".encode()
TOKENS = [*CONTROL, *MARKS, *BYTES, *CHARACTERS, SPACE]
KINDS = [
    gguf.TokenType.UNKNOWN,
    *[gguf.TokenType.CONTROL] * 4,
    *[gguf.TokenType.USER_DEFINED] * len(MARKS),
    *[gguf.TokenType.BYTE] * 256,
    *[gguf.TokenType.NORMAL] * (len(CHARACTERS) + 1),
]
START, END = TOKENS.index(b"<s>"), TOKENS.index(b"<|im_end|>")


def next_tokens() -> np.ndarray:
    """How likely each token is (rows) after each other token (columns)."""
    count = len(TOKENS)
    chances = np.full((count, count), -12.0, np.float32)
    for token in CHARACTERS:
        chances[TOKENS.index(token)] = -1.0
    letters = [TOKENS.index(bytes([letter])) for letter in b"abcdefghijklmnopqrstuvwxyz"]
    chances[letters] = np.random.default_rng(7).standard_normal((len(letters), count))
    line_end, opener, closer = TOKENS.index(b"<0x0A>"), *map(TOKENS.index, MARKS)
    chances[TOKENS.index(SPACE)] = 1.0
    chances[END] = -0.5
    chances[line_end] = 0.5
    chances[TOKENS.index(b'"')] = 1.0  # in a call it ends a text
    chances[opener, line_end] = 4.0
    chances[line_end, opener] = chances[END, closer] = 12.0
    return chances


def write(path: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    _add_vocabulary(writer)
    _add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([-float(number) for number in range(len(TOKENS))])
    writer.add_token_types([int(kind) for kind in KINDS])
    writer.add_bos_token_id(START)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def _add_tensors(writer: gguf.GGUFWriter) -> None:
    count = len(TOKENS)
    embedding, output = np.zeros((count, WIDTH), np.float32), np.zeros((count, WIDTH), np.float32)
    embedding[np.arange(count), np.arange(count)] = 1.0
    output[:, :count] = next_tokens() / np.sqrt(WIDTH)  # the norm multiplies by this root
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((WIDTH, WIDTH), np.float32))
    for name, shape in (
        ("ffn_gate", (FEED_FORWARD, WIDTH)),
        ("ffn_up", (FEED_FORWARD, WIDTH)),
        ("ffn_down", (WIDTH, FEED_FORWARD)),
    ):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))


if __name__ == "__main__":
    write(sys.argv[1])
