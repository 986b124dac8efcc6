"""Checks every field of a tenant's request before anything is spent on it. Pure.

Raises InvalidRequestError with the name of the field; never repeats what the caller wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from edgelora.adapter_names import AUTO
from edgelora.errors import AdapterRejectedError, InvalidRequestError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import DegradationPreference
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.generation_limits import (
    check_conversation,
    check_options,
    check_prompt,
    check_session,
    check_tool_use,
)

MAX_ADAPTERS = 4
MAX_STRENGTH = 2.0
MAX_DESCRIPTION_CHARS = 500
MAX_CONFIG_BYTES = 2**20
CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
PROBE_FILE = "probe.jsonl"
MAX_PROBE_BYTES = 2**16
CARD_FILE = "card.json"
MAX_CARD_BYTES = 2**16
HEAD_FILE = "head.json"
MAX_HEAD_BYTES = 2**19
MAX_PAGE_SIZE = 1000
MAX_PAGE_TOKEN_CHARS = 256
MAX_USER_CHARS = 64
MAX_REQUEST_ID_CHARS = 64
MAX_PACKAGE_CHARS = 512
Asking = pb.GenerateRequest | pb.ChatRequest | pb.ClassifyRequest | pb.EmbedRequest
"""What comes from a tenant's people."""
_ALIAS = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PACKAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*"
    r"(/[A-Za-z0-9][A-Za-z0-9._-]*)+"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})?"
)
_ALIAS_RULE = 'must be 1 to 64 letters, digits, ".", "_" or "-"'
_DIGEST_RULE = "must be sha256: and 64 lower-case hex digits"


def check_generate(request: pb.GenerateRequest) -> None:
    """Checks a GenerateRequest."""
    check_prompt(request.prompt)
    _check_common(request)


def check_chat(request: pb.ChatRequest) -> None:
    """Checks a ChatRequest."""
    check_conversation(request.messages)
    _check_common(request)
    check_tool_use(request.tools, request.options)


def check_set_strength(request_id: str, adapter: str, strength: float) -> None:
    """Checks a change of a running generation. `adapter` may be empty."""
    if not request_id or len(request_id) > MAX_REQUEST_ID_CHARS:
        raise _invalid("request_id", "must be that of a running generation, see its Accepted")
    if adapter:
        check_adapter_name(adapter, "adapter")
    _check_strength(strength, "strength")


def check_alias(name: str, field: str) -> None:
    """Checks an alias: it never becomes a path, and still may not look like one."""
    if not _ALIAS.fullmatch(name) or not name.strip("."):
        raise _invalid(field, _ALIAS_RULE)
    if name == AUTO:
        raise _invalid(field, f"must not be {AUTO}, which leaves the choice to the router")


def check_digest(digest: str, field: str) -> None:
    """Checks an adapter digest."""
    if not _DIGEST.fullmatch(digest):
        raise _invalid(field, _DIGEST_RULE)


def check_adapter_name(name: str, field: str) -> None:
    """Checks an alias or digest."""
    if not _DIGEST.fullmatch(name) and (not _ALIAS.fullmatch(name) or not name.strip(".")):
        raise _invalid(
            field, f"must be an alias or a digest: an alias {_ALIAS_RULE}, a digest {_DIGEST_RULE}"
        )


def check_set_alias(request: pb.SetAdapterAliasRequest) -> None:
    """Checks a SetAdapterAliasRequest."""
    check_alias(request.name, "name")
    check_digest(request.digest, "digest")


def check_list(request: pb.ListAdaptersRequest) -> None:
    """Checks a ListAdaptersRequest."""
    if request.page_size > MAX_PAGE_SIZE:
        raise _invalid("page_size", f"must be at most {MAX_PAGE_SIZE}")
    if len(request.page_token) > MAX_PAGE_TOKEN_CHARS:
        raise _invalid("page_token", "must be the next_page_token of the page before")


def check_install(request: pb.InstallAdapterRequest) -> None:
    """Checks an InstallAdapterRequest: a package is a name at a remote, never an address."""
    if len(request.package) > MAX_PACKAGE_CHARS or not _PACKAGE.fullmatch(request.package):
        raise _invalid("package", "must be REMOTE/NAME, REMOTE/NAME:TAG or REMOTE/NAME@sha256:...")
    _check_naming(request, "")


def check_upload_header(header: pb.AdapterUploadHeader, max_weights_bytes: int) -> None:
    """Checks the announcement of an upload: its files, each once, within their sizes.

    Raises AdapterRejectedError where the adapter itself is incomplete or too large.
    """
    _check_naming(header, "header.")
    if header.version_of_digest:
        check_digest(header.version_of_digest, "header.version_of_digest")
    limits = {
        CONFIG_FILE: MAX_CONFIG_BYTES,
        WEIGHTS_FILE: max_weights_bytes,
        PROBE_FILE: MAX_PROBE_BYTES,
        CARD_FILE: MAX_CARD_BYTES,
        HEAD_FILE: MAX_HEAD_BYTES,
    }
    names = [file.name for file in header.files]
    for index, file in enumerate(header.files):
        field = f"header.files[{index}]"
        if file.name not in limits:
            raise _rejected(f"{field}.name", f"must be one of {', '.join(limits)}")
        if names.index(file.name) != index:
            raise _rejected(f"{field}.name", "names a file that is announced twice")
        if not 1 <= file.size_bytes <= limits[file.name]:
            raise _rejected(
                f"{field}.size_bytes", f"must be 1 to {limits[file.name]} for {file.name}"
            )
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if name not in names:
            raise _rejected("header.files", f"must announce {name}: an adapter needs both files")


def _check_naming(request: pb.AdapterUploadHeader | pb.InstallAdapterRequest, path: str) -> None:
    """Checks what a new adapter shall be called; `path` is where its fields are."""
    if request.alias:
        check_alias(request.alias, f"{path}alias")
    elif request.HasField("expected_generation"):
        raise _invalid(f"{path}expected_generation", "needs an alias, whose generation it is")
    if len(request.description) > MAX_DESCRIPTION_CHARS:
        rule = f"may have at most {MAX_DESCRIPTION_CHARS} characters"
        raise _invalid(f"{path}description", rule)
    if "\0" in request.description:
        raise _invalid(f"{path}description", "must not hold the NUL character")


def check_asking(request: Asking) -> None:
    """Checks who asks, and how urgently."""
    if request.priority not in PriorityClass.values():
        raise _invalid("priority", "must be interactive, background or batch")
    if len(request.user) > MAX_USER_CHARS or not request.user.isprintable():
        raise _invalid("user", f"may have at most {MAX_USER_CHARS} characters, all printable")


def check_selection(selection: AdapterSelection, field: str) -> None:
    """Checks the name and the strength of an adapter that `field` of a request selects."""
    check_adapter_name(selection.adapter, f"{field}.adapter")
    if selection.HasField("strength"):
        _check_strength(selection.strength, f"{field}.strength")


def _check_common(request: pb.GenerateRequest | pb.ChatRequest) -> None:
    _check_adapters(request.adapters)
    _check_degradation(request.degradation)
    check_session(request.session)
    check_options(request.options)
    check_asking(request)


def _check_adapters(adapters: Sequence[AdapterSelection]) -> None:
    if len(adapters) > MAX_ADAPTERS:
        raise _invalid("adapters", f"may hold at most {MAX_ADAPTERS} adapters")
    seen: set[str] = set()
    for index, selection in enumerate(adapters):
        field = f"adapters[{index}]"
        check_selection(selection, field)
        if selection.adapter == AUTO:
            _check_auto(selection, field, len(adapters))
        if selection.adapter in seen:
            rule = "names an adapter again: give each once, with its whole strength"
            raise _invalid(f"{field}.adapter", rule)
        seen.add(selection.adapter)


def _check_strength(strength: float, field: str) -> None:
    if not (math.isfinite(strength) and 0.0 <= strength <= MAX_STRENGTH):
        raise _invalid(field, f"must be a number, 0 to {MAX_STRENGTH:g}")


def _check_auto(selection: AdapterSelection, field: str, num_adapters: int) -> None:
    if num_adapters > 1:
        raise _invalid(f"{field}.adapter", f"is {AUTO}, which stands alone: name no other adapter")
    if selection.HasField("strength"):
        raise _invalid(f"{field}.strength", f"goes with no {AUTO}: the router chooses the strength")


def _check_degradation(preference: DegradationPreference) -> None:
    if not preference.fallback_adapter:
        return
    field = "degradation.fallback_adapter"
    check_adapter_name(preference.fallback_adapter, field)
    if preference.fallback_adapter == AUTO:
        raise _invalid(field, f"must not be {AUTO}: name an adapter")
    if preference.is_refused:
        raise _invalid(field, "goes with no is_refused: nothing is served in the place of another")


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)


def _rejected(field: str, rule: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{field} {rule}", field=field)
