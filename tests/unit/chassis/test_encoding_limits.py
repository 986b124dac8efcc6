"""The limits of a request to the encoder fit together."""

import pytest

from edgelora.adapter_format.head import MAX_LABEL_CHARS
from edgelora.errors import InvalidRequestError
from edgelora.v1.encoder_service_pb2 import EncoderServiceClassifyResponse
from edgelora.v1.encoding_pb2 import Classification, LabelScore
from services.chassis.channel import MAX_MESSAGE_BYTES
from services.chassis.encoding_limits import MAX_TEXTS, MAX_TOP_LABELS, check_top_labels


def allowed(number, num_texts):
    try:
        check_top_labels(number, num_texts)
    except InvalidRequestError as error:
        assert error.field == "top_labels"
        return False
    return True


@pytest.mark.parametrize("num_texts", [1, 5, 6, MAX_TEXTS])
def test_the_largest_answer_fits_into_a_message(num_texts):
    top = max(number for number in range(MAX_TOP_LABELS + 1) if allowed(number, num_texts))
    label = LabelScore(label="\U00020000" * MAX_LABEL_CHARS, probability=0.1)
    response = EncoderServiceClassifyResponse(
        classifications=[Classification(labels=[label] * top, is_out_of_scope=True)] * num_texts
    )
    assert response.ByteSize() < MAX_MESSAGE_BYTES - 4096  # room for who answered
    assert top * num_texts in {1000, 5000, 6 * 833, 64 * 78}
