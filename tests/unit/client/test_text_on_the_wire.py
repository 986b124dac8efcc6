"""What no wire can carry is refused before anything is sent."""

import pytest

from edgelora import EdgeLoraClient
from edgelora.errors import InvalidRequestError


@pytest.mark.parametrize("method", ["embed", "classify"])
async def test_half_a_surrogate_pair_is_no_text_and_not_repeated(method):
    async with EdgeLoraClient("127.0.0.1:1", "el_key") as client:
        with pytest.raises(InvalidRequestError, match="no Unicode character") as caught:
            await getattr(client, method)(["private \udcfc"], adapter="a")
    assert "private" not in str(caught.value)
