"""Adapter packages: an OCI image manifest with a layer for each file of a PEFT adapter.

OCI image specification 1.1 (`manifest.md`, `image-layout.md`) with the media types of CNCF
ModelPack 0.0.7. Layers are the plain files, so that any registry tool can carry a package; one more
may hold the adapter as nodes of one base model keep it. Deterministic: equal files make an equal
manifest, byte for byte.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.adapter_upload import CARD_NAME, FILE_NAMES, HEAD_NAME, PROBE_NAME, file_sizes

MANIFEST_MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_MEDIA_TYPE = "application/vnd.oci.image.index.v1+json"
ARTIFACT_TYPE = "application/vnd.cncf.model.manifest.v1+json"
CONFIG_MEDIA_TYPE = "application/vnd.cncf.model.config.v1+json"
LAYER_MEDIA_TYPES: Mapping[str, str] = {
    FILE_NAMES[0]: "application/vnd.cncf.model.weight.config.v1.raw",
    FILE_NAMES[1]: "application/vnd.cncf.model.weight.v1.raw",
    PROBE_NAME: "application/vnd.cncf.model.dataset.v1.raw",
    CARD_NAME: "application/vnd.cncf.model.doc.v1.raw",
    HEAD_NAME: "application/vnd.cncf.model.weight.config.v1.raw",
}
ENCODED_MEDIA_TYPE = "application/vnd.edgelora.adapter.encoded.v1"
"""Of an encoded form (docs/codec.md)."""
BASE_ANNOTATION = "edgelora.base.digest"
"""Which base model an encoded form is for."""
CODEC_ANNOTATION = "edgelora.codec.version"
FILE_NAME_ANNOTATIONS = ("org.cncf.model.filepath", "org.opencontainers.image.title")
"""Where a layer's file name stands: ModelPack's annotation, and the one other OCI tools use."""
TAG_ANNOTATION = "org.opencontainers.image.ref.name"
"""Where an image layout's index keeps a manifest's tag."""

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """Content by its hash."""

    digest: str
    """`sha256:` and 64 hex digits."""
    size_bytes: int

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """The blob some bytes make."""
        return cls(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))

    def descriptor(self, media_type: str, **more: Any) -> dict[str, Any]:
        """How a manifest or index refers to it."""
        return {"mediaType": media_type, "digest": self.digest, "size": self.size_bytes, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedForm:
    """An adapter as nodes of one base model keep it."""

    base_digest: str
    """Of the base model: `sha256:` and 64 hex digits."""
    codec_version: int
    data: bytes

    def descriptor(self) -> dict[str, Any]:
        """Its layer. A package may hold forms for several base models, each a file of its own."""
        name = f"adapter-{self.base_digest.removeprefix('sha256:')[:12]}.edgelora"
        return Blob.of(self.data).descriptor(
            ENCODED_MEDIA_TYPE,
            annotations={
                **dict.fromkeys(FILE_NAME_ANNOTATIONS, name),
                BASE_ANNOTATION: self.base_digest,
                CODEC_ANNOTATION: str(self.codec_version),
            },
        )


def is_tag(text: str) -> bool:
    """Whether a text may be a tag (OCI distribution specification)."""
    return _TAG.fullmatch(text) is not None


def package_documents(
    files: Mapping[str, Blob], encoded: Sequence[EncodedForm] = ()
) -> tuple[bytes, bytes]:
    """The ModelPack config and the manifest of a package with these files, by name."""
    layers = [
        files[name].descriptor(media_type, annotations=dict.fromkeys(FILE_NAME_ANNOTATIONS, name))
        for name, media_type in LAYER_MEDIA_TYPES.items()
        if name in files
    ] + [form.descriptor() for form in encoded]
    config = _json(
        {
            "descriptor": {},
            "config": {"format": "safetensors"},
            "modelfs": {"type": "layers", "diffIds": [layer["digest"] for layer in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_MEDIA_TYPE,
            "artifactType": ARTIFACT_TYPE,
            "config": Blob.of(config).descriptor(CONFIG_MEDIA_TYPE),
            "layers": layers,
        }
    )
    return config, manifest


def write_package(
    directory: Path, output: Path, tag: str, encoded: Sequence[EncodedForm] = ()
) -> str:
    """Writes a PEFT adapter as an OCI image layout with one tag; returns the manifest's digest.

    `output` appears whole or not at all. Raises AdapterRejectedError naming a file of the adapter
    that is missing, FileExistsError when there is an `output`, other OSError.
    """
    names = file_sizes(directory)
    if output.exists():
        raise FileExistsError(
            errno.EEXIST, "there is something already: name a new directory", str(output)
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".pack-") as temporary:
        layout = Path(temporary) / "layout"
        blobs = layout / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        config, manifest = package_documents(
            {name: _copy(directory / name, blobs) for name in names}, encoded
        )
        for data in (config, manifest, *(form.data for form in encoded)):
            _put(data, blobs)
        described = Blob.of(manifest).descriptor(
            MANIFEST_MEDIA_TYPE, artifactType=ARTIFACT_TYPE, annotations={TAG_ANNOTATION: tag}
        )
        index = {"schemaVersion": 2, "mediaType": INDEX_MEDIA_TYPE, "manifests": [described]}
        (layout / "index.json").write_bytes(_json(index))
        (layout / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        layout.rename(output)
    return Blob.of(manifest).digest


def _copy(file: Path, blobs: Path) -> Blob:
    """Copies a file to the name of its hash, reading it once."""
    hasher = hashlib.sha256()
    size_bytes = 0
    copy = blobs / "copy"
    with file.open("rb") as source, copy.open("wb") as target:
        while piece := source.read(_PIECE_BYTES):
            hasher.update(piece)
            size_bytes += target.write(piece)
    copy.rename(blobs / hasher.hexdigest())
    return Blob(f"sha256:{hasher.hexdigest()}", size_bytes)


def _put(data: bytes, blobs: Path) -> None:
    (blobs / hashlib.sha256(data).hexdigest()).write_bytes(data)


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
