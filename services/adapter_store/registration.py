"""From files to a registered adapter: verified, stored and named, or nothing at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgelora.adapter_format.card import AdapterCard, parse_card
from edgelora.errors import DataCorruptError
from services.adapter_store.bases import ServedBases
from services.adapter_store.ended_registration import RegistrationObserver, told
from services.adapter_store.fair_turns import FairTurns
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.registry.manifest import (
    AdapterContent,
    AdapterManifest,
    Alias,
    Blob,
    ServingForm,
)
from services.adapter_store.registry.writer import AdapterQuota, RegistryWriter
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import AdapterFiles, storage_errors
from services.adapter_store.verification.certificate import Certificate
from services.adapter_store.verification.orders import KnownForm
from services.adapter_store.verification.verifier import EncodedBlob, VerifiedAdapter, Verifier
from services.adapter_store.wish import Wish

_FORMS = {
    3.2: ServingForm.ENCODED_3,
    4.5: ServingForm.ENCODED_4,
    8.0: ServingForm.ENCODED_8,
}
"""By the nominal bits of a level."""
_BITS = {form: bits for bits, form in _FORMS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What came of an adapter's files."""

    manifest: AdapterManifest
    alias: Alias | None
    is_new: bool


class RegistrationDesk:
    """Verifies files and changes flash and registry together, one change at a time."""

    def __init__(
        self,
        *,
        bases: ServedBases,
        registry: RegistryWriter,
        flash: FlashTier,
        verifier: Verifier,
        turns: FairTurns,
        changing: asyncio.Lock,
        default_quota: AdapterQuota,
        unix_clock_s: Callable[[], float],
        observe: RegistrationObserver | None = None,
    ) -> None:
        """`turns`: as many as verify at once. `changing`: held while flash and registry change.
        `default_quota`: bounds every tenant's own.
        """
        self._bases = bases
        self._registry = registry
        self._flash = flash
        self._verifier = verifier
        self._turns = turns
        self._changing = changing
        self._default_quota = default_quota
        self._unix_clock_s = unix_clock_s
        self._observe = observe
        self._in_doubt: set[str] = set()

    async def register(
        self,
        tenant_id: str,
        files: AdapterFiles,
        wish: Wish,
        *,
        package: str | None,
        quota: AdapterQuota | None = None,
    ) -> Registration:
        """Registers an adapter for a tenant.

        `package`: where its files can be had again. `quota`: None for the store's own. Raises
        AdapterRejectedError, AdapterIncompatibleError, AdapterNotFoundError, InvalidRequestError,
        AlreadyExistsError, QuotaExceededError, ResourcePressureError.
        """
        with told(self._observe) as ended:
            card = await in_thread(_read_card, files)
            async with self._turns.take(tenant_id):
                started_s = time.monotonic()
                verified = await self._verify(files)
                ended.verify_s = time.monotonic() - started_s
            _check_weights(files, verified)
            async with self._changing:
                registration = await in_thread(
                    self._store, tenant_id, files, verified, card, wish, package, quota
                )
            ended.is_new = registration.is_new
        return registration

    def lasting_form(self, content: AdapterContent) -> Blob | None:
        """The encoded form that a content keeps when it comes back; None when it may change."""
        return content.encoded if content.base_digest in self._bases.digests else None

    async def put_back(self, content: AdapterContent, encoded: Path) -> None:
        """Puts the encoded form of an evicted content back on flash: a synced file of its bytes.

        Its certificate is of these bytes, so that there is nothing to verify. Raises
        ResourcePressureError.
        """
        async with self._changing:
            await in_thread(self._put_back, content, encoded)

    async def restore(self, tenant_id: str, content: AdapterContent, files: AdapterFiles) -> None:
        """Puts an evicted content back on flash, made of its files again, for a tenant.

        Raises DataCorruptError when they are not that adapter's, and as `register`.
        """
        encoded = self.lasting_form(content)
        async with self._turns.take(tenant_id):
            if encoded is None:
                verified: VerifiedAdapter | EncodedBlob = await self._verify(files)
            else:
                verified = await self._verifier.verify_again(
                    files.config,
                    files.weights,
                    files.probe,
                    _target(files),
                    KnownForm(bits=_BITS[content.form], sha256=encoded.name),
                )
        if isinstance(verified, EncodedBlob):
            await self.put_back(content, verified.path)
            return
        _check_weights(files, verified)
        if verified.digest != content.digest:
            raise DataCorruptError(
                "the package holds another adapter than it did: install it again", field="package"
            )
        async with self._changing:
            await in_thread(self._restore, tenant_id, files, verified)

    async def set_aside(self, digest: str) -> None:
        """Takes a damaged content off flash, so that it can be restored."""
        async with self._changing:
            await in_thread(self._set_aside, digest)

    def _set_aside(self, digest: str) -> None:
        current = self._registry.content(digest)
        if current is None or not current.is_on_flash:
            return
        try:
            # Whoever found the damage too may have repaired it by now.
            self._flash.check(current)
        except DataCorruptError:
            with storage_errors():
                self._flash.remove(self._registry.evict(digest))

    async def _verify(self, files: AdapterFiles) -> VerifiedAdapter:
        return await self._verifier.verify(
            files.config,
            files.weights,
            files.probe,
            _target(files),
            head=files.head,
            candidate=files.encoded,
        )

    def _store(
        self,
        tenant_id: str,
        files: AdapterFiles,
        verified: VerifiedAdapter,
        card: AdapterCard | None,
        wish: Wish,
        package: str | None,
        quota: AdapterQuota | None,
    ) -> Registration:
        content, blobs = self._content(files, verified)
        current = None if wish.alias is None else self._registry.alias(tenant_id, wish.alias.name)
        manifest = AdapterManifest(
            tenant_id=tenant_id,
            content=content,
            registered_at_s=self._unix_clock_s(),
            description=wish.description or ("" if card is None else card.description),
            package=package,
            parent_digest=(
                None if current is None or current.digest == content.digest else current.digest
            ),
            is_pinned=False,
            version_of_digest=wish.version_of_digest,
        )
        with self._adopted(content, blobs):
            stored, pointed, is_new = self._registry.add(
                manifest,
                _document(verified.certificate),
                alias=wish.alias,
                example_prompts=None if card is None else card.examples,
                labels=() if verified.head is None else verified.head.labels,
                quota=self._bounded(quota),
            )
        return Registration(manifest=stored, alias=pointed, is_new=is_new)

    def _bounded(self, quota: AdapterQuota | None) -> AdapterQuota:
        """A tenant's quota within the store's own."""
        if quota is None:
            return self._default_quota
        most = min(quota.max_adapters, self._default_quota.max_adapters)
        return replace(quota, max_adapters=most)

    def _put_back(self, content: AdapterContent, encoded: Path) -> None:
        known = self._registry.content(content.digest)
        certificate = self._registry.certificate(content.digest)
        if known is None or known.blobs != content.blobs:
            return  # deleted or registered anew meanwhile
        assert known.encoded is not None
        assert certificate is not None
        with self._adopted(known, [(encoded, known.encoded)]):
            self._registry.restore(
                replace(known, is_on_flash=True), certificate, certified_for=None
            )

    def _restore(self, tenant_id: str, files: AdapterFiles, verified: VerifiedAdapter) -> None:
        content, blobs = self._content(files, verified)
        with self._adopted(content, blobs):
            document = _document(verified.certificate)
            self._registry.restore(content, document, certified_for=tenant_id)

    def _content(
        self, files: AdapterFiles, verified: VerifiedAdapter
    ) -> tuple[AdapterContent, list[tuple[Path, Blob]]]:
        """What is to be stored, and the files it consists of."""
        config = weights = encoded = head = None
        if verified.encoded is None:
            config = _write(files.directory / "canonical", verified.canonical_config)
            weights = Blob(name=files.weights_sha256.hex(), size_bytes=files.weights_bytes)
            blobs = [(files.directory / "canonical", config), (files.weights, weights)]
            if verified.canonical_head is not None:
                head = _write(files.directory / "canonical-head", verified.canonical_head)
                blobs.append((files.directory / "canonical-head", head))
        else:
            encoded = Blob(name=verified.encoded.name, size_bytes=verified.encoded.size_bytes)
            blobs = [(verified.encoded.path, encoded)]
        content = AdapterContent(
            digest=verified.digest,
            base_digest=verified.certificate.base_digest,
            rank=verified.rank,
            alpha=verified.alpha,
            target_modules=verified.target_modules,
            num_parameters=verified.num_parameters,
            weights_bytes=files.weights_bytes,
            form=_form(verified.certificate),
            config=config,
            weights=weights,
            encoded=encoded,
            certificate_digest=verified.certificate.digest,
            is_on_flash=True,
            task=verified.task,
            head=head,
            num_labels=0 if verified.head is None else len(verified.head.labels),
            knows_out_of_scope=verified.head is not None and verified.head.out_of_scope is not None,
        )
        return content, blobs

    @contextmanager
    def _adopted(
        self, content: AdapterContent, blobs: Sequence[tuple[Path, Blob]]
    ) -> Iterator[None]:
        """Moves files in for a change of the registry, and out again what came for nothing:
        refused by the registry, replaced, or known in another form.

        A commit that storage failed may turn out made after a crash, as long as no later one has
        taken its place in the log: its files stay until then.
        """
        known = self._registry.content(content.digest)
        replaced = set() if known is None else {blob.name for blob in known.blobs}
        names = {blob.name for _, blob in blobs}
        with storage_errors():
            try:
                self._flash.adopt(blobs)
                yield
            except (OSError, sqlite3.Error):
                self._in_doubt |= names
                raise
            except BaseException:
                self._flash.remove(self._registry.unused(names - self._in_doubt))
                raise
            self._flash.remove(self._registry.unused(names | replaced | self._in_doubt))
            self._in_doubt.clear()


def _target(files: AdapterFiles) -> Path:
    """Where the encoded form goes."""
    return files.directory / "serving"


def _check_weights(files: AdapterFiles, verified: VerifiedAdapter) -> None:
    if verified.weights_sha256 != files.weights_sha256:
        raise DataCorruptError(
            "the weights changed while they were verified: send them again", field="weights"
        )


def _read_card(files: AdapterFiles) -> AdapterCard | None:
    if files.card is None:
        return None
    with storage_errors():
        return parse_card(files.card.read_bytes())


def _form(certificate: Certificate) -> ServingForm:
    if certificate.encoding is None:
        return ServingForm.EXACT
    return _FORMS[certificate.encoding.bits]


def _document(certificate: Certificate) -> str:
    return certificate.canonical_bytes().decode("ascii")


def _write(path: Path, canonical: bytes) -> Blob:
    """Writes a canonical file, synced."""
    with storage_errors():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(canonical)
            file.flush()
            os.fsync(file.fileno())
    return Blob(name=hashlib.sha256(canonical).hexdigest(), size_bytes=len(canonical))
