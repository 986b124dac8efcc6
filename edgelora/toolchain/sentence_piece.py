"""SentencePiece BPE vocabularies (Llama 2, Mistral) as tokenizers: pieces with scores."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, normalizers

_SPACE = "\u2581"


def sentence_piece_tokenizer(
    tokens: Sequence[str], scores: Sequence[float], *, unknown: str | None, has_space_prefix: bool
) -> Tokenizer:
    """Builds a tokenizer without special tokens.

    `has_space_prefix`: whether a text is read as if a space stood before it. Raises ValueError when
    there are not as many scores as tokens.
    """
    vocabulary = {token: index for index, token in enumerate(tokens)}
    model = models.BPE(
        vocab=vocabulary,
        merges=_merges(vocabulary, scores),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    spaces = normalizers.Replace(" ", _SPACE)
    after = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if has_space_prefix:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), spaces])
        after.append(decoders.Strip(" ", 1, 0))
    else:
        tokenizer.normalizer = spaces
    tokenizer.decoder = decoders.Sequence(after)
    return tokenizer


def _merges(vocabulary: dict[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, the piece with the best score first."""
    ranked: list[tuple[float, int, str, str]] = []
    for (piece, index), score in zip(vocabulary.items(), scores, strict=True):
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocabulary and right in vocabulary:
                ranked.append((-score, index, left, right))
    ranked.sort(key=lambda entry: entry[:2])
    return [(left, right) for _, _, left, right in ranked]
