"""A byte-level BPE tokenizer of a few hundred tokens, with control tokens and a chat template."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
EOS_TOKEN_ID = 2
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_MERGES = ("th", "he", "in", "er", "Ġt", "Ġa", "the", "Ġthe", "ing", "as", "ple", "ase", "please")


def small_tokenizer() -> Tokenizer:
    """256 bytes, a few merges and three control tokens at ids 0 to 2."""
    vocab = {token: index for index, token in enumerate(CONTROL_TOKENS)}
    for character in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[character] = len(vocab)
    merges = []
    for token in _MERGES:
        cut = next(
            (cut for cut in range(1, len(token)) if {token[:cut], token[cut:]} <= vocab.keys()),
            None,
        )
        if cut is not None:
            merges.append((token[:cut], token[cut:]))
            vocab[token] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in CONTROL_TOKENS]
    )
    return tokenizer


def save_tokenizer(directory: Path) -> None:
    """Writes the tokenizer's files of a prepared model directory."""
    small_tokenizer().save(str(directory / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(json.dumps({"eos_token_id": EOS_TOKEN_ID}))
