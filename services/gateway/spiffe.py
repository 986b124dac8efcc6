"""SPIFFE IDs of tenants: `spiffe://TRUST-DOMAIN/tenant/TENANT`.

Source: The SPIFFE Identity and Verifiable Identity Document, sections 2.1 to 2.3.
"""

from __future__ import annotations

import re

from edgelora.errors import InvalidRequestError

_MAX_BYTES = 2048
_SPIFFE_ID = re.compile(r"spiffe://[a-z0-9._-]{1,255}/tenant/([A-Za-z0-9_-]{1,64})")


def check_spiffe_id(spiffe_id: str, tenant_id: str) -> None:
    """Raises InvalidRequestError when it is not the ID of this tenant in some trust domain."""
    match = _SPIFFE_ID.fullmatch(spiffe_id)
    if match is None or len(spiffe_id) > _MAX_BYTES or match[1] != tenant_id:
        raise InvalidRequestError(
            "spiffe_id must be spiffe://TRUST-DOMAIN/tenant/TENANT with the tenant's own id, and "
            "a trust domain of lower-case letters, digits, dots, hyphens and underscores",
            field="spiffe_id",
        )
