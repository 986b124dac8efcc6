"""Rebuilds `tokenizer.json` from the vocabulary that a GGUF file carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors

from edgelora.toolchain.byte_level_bpe import PRE_TOKENIZERS, byte_level_tokenizer
from edgelora.toolchain.decoder_shape import is_count
from edgelora.toolchain.errors import ToolchainError, refusing
from edgelora.toolchain.model_source import TokenizerFiles
from edgelora.toolchain.sentence_piece import sentence_piece_tokenizer
from edgelora.toolchain.template_source import read_template

_CONTROL_TOKEN = 3
_USER_DEFINED_TOKEN = 4
_OTHER_WAY = "prepare from the model's Hugging Face directory instead"


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """What `tokenizer.ggml.*` says."""

    metadata: Mapping[str, Any]
    tokens: list[str]

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> GgufVocabulary:
        """Raises ToolchainError when the file carries no tokens, or a token twice."""
        tokens = metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens):
            raise ToolchainError(f"the file carries no vocabulary: {_OTHER_WAY}")
        if len(set(tokens)) != len(tokens):
            raise ToolchainError(f"the file's vocabulary names a token twice: {_OTHER_WAY}")
        return cls(metadata, tokens)

    def token_id(self, role: str) -> int | None:
        """The id of the token with a `role` (bos, eos, eot, padding, unknown), if there is one."""
        value = self.metadata.get(f"tokenizer.ggml.{role}_token_id")
        if value is not None and not (is_count(value) and 0 <= value < len(self.tokens)):
            raise ToolchainError(f"the file's {role} token is none of its vocabulary: {_OTHER_WAY}")
        return value

    def end_ids(self) -> list[int]:
        """Ids that end a generation. Raises ToolchainError when there is none."""
        ids = {self.token_id(role) for role in ("eos", "eot")} - {None}
        if not ids:
            raise ToolchainError("the file names no end-of-sequence token")
        return sorted(one for one in ids if one is not None)

    def files(self) -> TokenizerFiles:
        """Builds the tokenizer.

        Raises ToolchainError when its kind, or its way of splitting text, is not known here.
        """
        with refusing(f"the file's vocabulary is damaged: {_OTHER_WAY}"):
            document = self._tokenizer().to_str(pretty=False)
        return TokenizerFiles(
            document=document,
            bos_token=self._text("bos"),
            eos_token=self._text("eos") or self.tokens[self.end_ids()[0]],
            pad_token=self._text("padding"),
            unk_token=self._text("unknown"),
            chat_template=read_template(self.metadata.get("tokenizer.chat_template")),
        )

    def _tokenizer(self) -> Tokenizer:
        tokenizer = self._plain_tokenizer()
        tokenizer.add_special_tokens(self._added(_CONTROL_TOKEN))
        tokenizer.add_tokens(self._added(_USER_DEFINED_TOKEN))
        bos = self.token_id("bos")
        if self._starts_with_bos():
            if bos is None:
                raise ToolchainError(f"the file names no start token: {_OTHER_WAY}")
            start = self.tokens[bos]
            tokenizer.post_processor = processors.TemplateProcessing(
                single=[start, "$A"], pair=[start, "$A", "$B"], special_tokens=[(start, bos)]
            )
        return tokenizer

    def _plain_tokenizer(self) -> Tokenizer:
        kind = self.metadata.get("tokenizer.ggml.model")
        split = self.metadata.get("tokenizer.ggml.pre", "gpt-2")
        if kind == "gpt2" and isinstance(split, str) and split in PRE_TOKENIZERS:
            merges = self.metadata.get("tokenizer.ggml.merges", [])
            return byte_level_tokenizer(self.tokens, merges, split)
        if kind == "llama":
            return sentence_piece_tokenizer(
                self.tokens,
                self.metadata.get("tokenizer.ggml.scores", []),
                unknown=self._text("unknown"),
                has_space_prefix=self.metadata.get("tokenizer.ggml.add_space_prefix", True),
            )
        raise ToolchainError(
            f"the file's tokenizer ({kind!r}, split {split!r}) is not supported; supported: "
            f"'llama', and 'gpt2' with split {', '.join(PRE_TOKENIZERS)}: {_OTHER_WAY}"
        )

    def _starts_with_bos(self) -> bool:
        # What llama.cpp takes for a file that does not say.
        usual = (
            self.metadata.get("tokenizer.ggml.model") == "llama"
            or self.metadata.get("tokenizer.ggml.pre") == "llama-bpe"
        )
        return bool(self.metadata.get("tokenizer.ggml.add_bos_token", usual))

    def _text(self, role: str) -> str | None:
        index = self.token_id(role)
        return None if index is None else self.tokens[index]

    def _added(self, wanted: int) -> list[AddedToken]:
        types = self.metadata.get("tokenizer.ggml.token_type", [])
        return [
            AddedToken(token, special=wanted == _CONTROL_TOKEN, normalized=False)
            for token, kind in zip(self.tokens, types, strict=False)
            if kind == wanted
        ]
