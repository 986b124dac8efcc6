"""Log probabilities in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.v1.generation_pb2 import TokenLogprob, TopLogprob


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, object]:
    """`logprobs` of a chat choice, or of a piece of it."""
    return {
        "content": [token_document(token) for token in tokens],
        "refusal": None,
    }


def token_document(token: TokenLogprob) -> dict[str, object]:
    """A token with the likeliest ones in its place."""
    return {**_entry(token), "top_logprobs": [_entry(top) for top in token.top]}


class TextLogprobs:
    """`logprobs` of a text completion; remembers where in the text it is."""

    def __init__(self) -> None:
        self._offset = 0

    def document(self, tokens: Sequence[TokenLogprob]) -> dict[str, object]:
        """Of the next tokens."""
        texts = [_text(token.token) for token in tokens]
        offsets = []
        for text in texts:
            offsets.append(self._offset)
            self._offset += len(text)
        return {
            "tokens": texts,
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [
                {_text(top.token): top.logprob for top in token.top} for token in tokens
            ],
            "text_offset": offsets,
        }


def _entry(token: TokenLogprob | TopLogprob) -> dict[str, object]:
    return {
        "token": _text(token.token),
        "logprob": token.logprob,
        "bytes": list(token.token),
    }


def _text(token: bytes) -> str:
    """Parts of characters become replacement marks; `bytes` has them exactly."""
    return token.decode(errors="replace")
