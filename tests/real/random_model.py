"""A tiny language model with random weights, written as a GGUF file for llama.cpp.

It knows nothing and says anything, so a server that holds it to a grammar sends tool calls that are
sound by form and odd in everything else: strange strings, long numbers, empty lists, cut at any place.

A few inputs of the last layer are set by hand. The first is the same for every token: it raises the
likelihood of characters that end something, so that strings and lists do end. The others stand for one
token each, and raise the likelihood of what may come next: a call after the start of a line, say.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy

__all__ = ["write_random_model"]

WIDTH = 64
LAYERS = 2
HEADS = 4
INNER = 128
CONTEXT = 16384
SPREAD = 0.7
"""How far the weights make tokens differ: more of it gives repetition, less gives plain noise."""

LOUD = numpy.sqrt(WIDTH)
HEARD = numpy.sqrt(WIDTH / 4)
"""What a loud input comes to behind the last normalisation, about."""

START, END, CALL, END_OF_CALL = "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"
SPECIAL = ("<|endoftext|>", START, END)
MARKERS = (CALL, END_OF_CALL)
WORDS = ("the", "Ġand", "true", "false", "null", '":', '",', "{}", "Ġ\u00c3\u00a9", "ðŁĺĢ")
"""Tokens of several characters, in the alphabet of the tokenizer; the last is an emoji."""

RAISED = {'"': 3.5, "}": 3.0, "]": 1.5, ",": 2.0, END_OF_CALL: 2.0, "ðŁĺĢ": 1.5}
NO_LEADS = (0xC0, 0xC1, 0xE0, 0xED, *range(0xF0, 0x100))
"""Bytes that begin no character of UTF-8, or none that any bytes after them would make whole."""
LINE_END = "Ċ"
FOLLOWED_BY = {LINE_END: {CALL: 9.0}, END_OF_CALL: {LINE_END: 5.0, END: 5.5}}
TEMPLATE = """
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools' }}{%- for tool in tools %}{{- ' ' + tool.function.name }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for tool_call in message.tool_calls or [] %}
{%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
{{- '\\n<tool_call>{"name": "' + tool_call.name + '", "arguments": ' }}
{{- tool_call.arguments | tojson }}{{- '}</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def write_random_model(path: Path, seed: int = 1) -> None:
    """The same seed gives the same file."""
    tokens = [*_alphabet(), *WORDS, *SPECIAL, *MARKERS]
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, len(tokens))
    _add_tokenizer(writer, tokens)
    for name, weights in _weights(tokens, numpy.random.default_rng(seed)).items():
        writer.add_tensor(name, weights.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter, tokens: int) -> None:
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(tokens)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_tokenizer(writer: gguf.GGUFWriter, tokens: list[str]) -> None:
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    for marker in MARKERS:
        kinds[tokens.index(marker)] = gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h", "th e"])  # of no use, but a tokenizer without any is refused
    writer.add_bos_token_id(tokens.index(START))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE.strip())


def _alphabet() -> list[str]:
    """One printable character a byte, as byte-level tokenizers have it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    shown = {byte: chr(byte) for byte in printable}
    shown |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    return [shown[byte] for byte in range(256)]


def _weights(tokens: list[str], random: numpy.random.Generator) -> dict[str, numpy.ndarray]:
    def matrix(rows: int, columns: int) -> numpy.ndarray:
        return random.normal(0.0, 1 / numpy.sqrt(columns), (rows, columns))

    embedding = random.normal(0.0, 1.0, (len(tokens), WIDTH))
    embedding[:, 0] = LOUD
    for place, token in enumerate(FOLLOWED_BY, start=1):
        embedding[:, place] = 0.0
        embedding[tokens.index(token), place] = LOUD
    weights = {"token_embd.weight": embedding, "output_norm.weight": numpy.ones(WIDTH)}
    weights["output.weight"] = _likelihoods(tokens, matrix(len(tokens), WIDTH) * SPREAD)
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights[f"{prefix}{name}.weight"] = matrix(WIDTH, WIDTH)
        weights[f"{prefix}ffn_gate.weight"] = matrix(INNER, WIDTH)
        weights[f"{prefix}ffn_up.weight"] = matrix(INNER, WIDTH)
        weights[f"{prefix}ffn_down.weight"] = matrix(WIDTH, INNER)
        for name in ("attn_norm", "ffn_norm"):
            weights[f"{prefix}{name}.weight"] = numpy.ones(WIDTH)
    return weights


def _likelihoods(tokens: list[str], output: numpy.ndarray) -> numpy.ndarray:
    """Where a loud input is set, the raise it stands for is added to what the weights say."""
    output[:, : len(FOLLOWED_BY) + 1] = 0.0
    for place, raised in enumerate([RAISED, *FOLLOWED_BY.values()]):
        for token, by in raised.items():
            output[tokens.index(token), place] = by / HEARD
    output[list(NO_LEADS), 0] = -12.0 / HEARD
    return output
