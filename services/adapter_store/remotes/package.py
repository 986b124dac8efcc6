"""The one package form: an OCI image manifest whose layers are the files of an adapter. Pure.

OCI image specification 1.1, `manifest.md` and `image-layout.md`; media types of CNCF ModelPack.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edgelora.adapter_format.codec import VERSION
from edgelora.adapter_format.strict_json import parse_object
from edgelora.adapter_package import (
    BASE_ANNOTATION,
    CODEC_ANNOTATION,
    ENCODED_MEDIA_TYPE,
    FILE_NAME_ANNOTATIONS,
    MANIFEST_MEDIA_TYPE,
    TAG_ANNOTATION,
)
from edgelora.adapter_upload import FILE_NAMES
from edgelora.errors import AdapterRejectedError
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure, absent
from services.adapter_store.remotes.reference import PackageReference

PackageFile = Literal["config", "weights", "probe", "card", "head", "encoded"]
FILES: Mapping[str, PackageFile] = {
    "adapter_config.json": "config",
    "adapter_model.safetensors": "weights",
    "probe.jsonl": "probe",
    "card.json": "card",
    "head.json": "head",
}
"""Name in a layer's annotation -> which file it is. Beside these only encoded forms are fetched."""
MAX_MANIFEST_BYTES = 256 * 1024
DEFAULT_TAG = "latest"

_MAX_LAYERS = 64
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ARCHIVE = re.compile(r"tar|gzip|zstd|zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageLimits:
    """Largest size of each file, in bytes."""

    config: int
    weights: int
    probe: int
    card: int
    head: int

    def of(self, file: PackageFile) -> int:
        """The limit of one file."""
        return {
            "config": self.config,
            "weights": self.weights,
            "probe": self.probe,
            "card": self.card,
            "head": self.head,
            "encoded": self.weights,
        }[file]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One file of a package."""

    file: PackageFile
    digest: str
    """`sha256:` and 64 hex digits of its bytes."""
    size_bytes: int
    media_type: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageManifest:
    """What a package holds."""

    digest: str
    """Of the manifest's own bytes."""
    layers: Mapping[PackageFile, Layer]
    """Always config and weights; probe, card and head when the package has them."""
    encoded: tuple[Layer, ...]
    """What is said to be encoded forms. Malformed ones are left out: a package is good without."""

    def encoded_for(self, base_digest: str) -> Layer | None:
        """The form said to be of a base model and of this release's codec, if it saves anything."""
        wanted = {BASE_ANNOTATION: base_digest, CODEC_ANNOTATION: str(VERSION)}
        for layer in self.encoded:
            if (
                wanted.items() <= layer.annotations.items()
                and layer.size_bytes < self.layers["weights"].size_bytes
            ):
                return layer
        return None

    def encoded_as(self, digest: str, size_bytes: int) -> Layer | None:
        """The form that consists of known bytes."""
        for layer in self.encoded:
            if (layer.digest, layer.size_bytes) == (digest, size_bytes):
                return layer
        return None


def sha256_digest(data: bytes) -> str:
    """The digest of bytes, as OCI writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def parse_manifest(
    data: bytes, limits: PackageLimits, *, expected_digest: str | None
) -> PackageManifest:
    """Reads an OCI image manifest as hostile input.

    Raises RemoteFailure: CORRUPT when the bytes are not those of the expected digest, UNUSABLE
    when they are no adapter package or a file is larger than its limit.
    """
    digest = sha256_digest(data)
    if expected_digest not in (None, digest):
        raise RemoteFailure(
            FailureKind.CORRUPT, "the package's manifest does not match its checksum"
        )
    document = _object(data)
    if document.get("schemaVersion") != 2 or not isinstance(document.get("layers"), list):
        raise _unusable("it is not an OCI image manifest")
    if document.get("mediaType", MANIFEST_MEDIA_TYPE) != MANIFEST_MEDIA_TYPE:
        raise _unusable("it is an index or another kind of manifest: name one manifest")
    if len(document["layers"]) > _MAX_LAYERS:
        raise _unusable(f"it has more than {_MAX_LAYERS} layers")
    layers: dict[PackageFile, Layer] = {}
    encoded: list[Layer] = []
    for entry in document["layers"]:
        layer = _layer(entry, limits)
        if layer is None:
            continue
        if layer.file == "encoded":
            encoded.append(layer)
        elif layers.setdefault(layer.file, layer) is not layer:
            raise _unusable("two of its layers have the same file name")
    for name, file in FILES.items():
        if name in FILE_NAMES and file not in layers:
            raise _unusable(f"no layer is annotated as {name}")
    return PackageManifest(digest=digest, layers=layers, encoded=tuple(encoded))


def choose_manifest(index: bytes, reference: PackageReference) -> str:
    """Finds a reference's manifest in an OCI image layout's `index.json`; returns its digest.

    Without a tag it is the one tagged `latest`, or the only one. Raises RemoteFailure.
    """
    manifests = _object(index).get("manifests")
    if not isinstance(manifests, list) or not all(isinstance(entry, dict) for entry in manifests):
        raise _unusable("its index is not one of an OCI image layout")
    wanted = reference.tag or DEFAULT_TAG
    found = [entry for entry in manifests if _annotations(entry).get(TAG_ANNOTATION) == wanted]
    if not found and reference.tag is None and len(manifests) == 1:
        found = manifests
    if not found:
        raise absent()
    return _descriptor(found[0])[0]


def _layer(entry: Any, limits: PackageLimits) -> Layer | None:
    if not isinstance(entry, dict):
        raise _unusable("one of its layers is malformed")
    annotations = _annotations(entry)
    names = {annotations[key] for key in FILE_NAME_ANNOTATIONS if key in annotations}
    file = FILES.get(names.pop()) if len(names) == 1 else None
    if file is None:
        return _encoded_layer(entry, annotations, limits)
    digest, size_bytes = _descriptor(entry)
    media_type = entry.get("mediaType")
    if not isinstance(media_type, str) or _ARCHIVE.search(media_type):
        raise _unusable("its layers have to be plain files, not archives or compressed")
    if not 0 < size_bytes <= limits.of(file):
        raise _unusable(
            f"its {file} layer has {size_bytes} bytes, and 1 to {limits.of(file)} are allowed"
        )
    return Layer(
        file=file,
        digest=digest,
        size_bytes=size_bytes,
        media_type=media_type,
        annotations=annotations,
    )


def _encoded_layer(
    entry: dict[str, Any], annotations: Mapping[str, str], limits: PackageLimits
) -> Layer | None:
    if entry.get("mediaType") != ENCODED_MEDIA_TYPE:
        return None
    try:
        digest, size_bytes = _descriptor(entry)
    except RemoteFailure:
        return None
    if not 0 < size_bytes <= limits.of("encoded"):
        return None
    return Layer(
        file="encoded",
        digest=digest,
        size_bytes=size_bytes,
        media_type=ENCODED_MEDIA_TYPE,
        annotations=annotations,
    )


def _descriptor(entry: dict[str, Any]) -> tuple[str, int]:
    digest, size_bytes = entry.get("digest"), entry.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _unusable("it uses a digest other than SHA-256")
    if type(size_bytes) is not int or size_bytes < 0:
        raise _unusable("one of its descriptors has no size")
    return digest, size_bytes


def _annotations(entry: dict[str, Any]) -> dict[str, str]:
    annotations = entry.get("annotations", {})
    if not isinstance(annotations, dict):
        return {}
    return {key: value for key, value in annotations.items() if isinstance(value, str)}


def _object(data: bytes) -> dict[str, Any]:
    try:
        return parse_object(data, field="package")
    except AdapterRejectedError:
        raise _unusable("its manifest or index is not JSON") from None


def _unusable(why: str) -> RemoteFailure:
    return RemoteFailure(FailureKind.UNUSABLE, f"this is not an adapter package: {why}")
