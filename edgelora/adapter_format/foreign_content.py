"""Recognising by content what was uploaded in place of safetensors, to say so in the refusal."""

from __future__ import annotations

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive (a PyTorch .bin or .pt file)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x80", "a pickle"),
    (b"version https://git-lfs", "a Git LFS pointer: fetch the real file with `git lfs pull`"),
    (b"GGUF", "a GGUF file"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x93NUMPY", "a numpy file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x7fELF", "a program"),
)


def describe_foreign_content(head: bytes) -> str | None:
    """Names a well-known kind of content from the first bytes of a file; None when unknown.

    Only called for bytes that are no safetensors file: a valid header length may well start with
    the same byte as a pickle.
    """
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return name
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, probably an error page saved as a file"
    if text.startswith((b"{", b"[")):
        return "JSON text, probably an error answer saved as a file"
    if head[257:262] == b"ustar":
        return "a tar archive"
    if head[:4] in (b"(dp0", b"cos\n", b"(lp0"):
        return "a pickle"
    return None
