from edgelora.v1.encoder_service_pb2 import GetEncoderStatusResponse
from services.gateway.dashboard.encoder_window import EncoderWindow


def rates(*readings):
    """The rate after each reading of (time, texts), texts None where nobody answered."""
    window = EncoderWindow()
    for at_s, num_texts in readings:
        status = None if num_texts is None else GetEncoderStatusResponse(num_texts=num_texts)
        window.add(at_s, status)
        yield window.texts_per_s()


def test_texts_a_second_of_the_last_two_readings():
    assert [*rates((0, 10), (1, 30), (3, 40))] == [None, 20, 5]


def test_silence_and_a_new_start_begin_anew():
    assert [*rates((0, 10), (1, None), (2, 20), (3, 5), (4, 6), (4, 7))] == [
        *(None, None, None, None, 1),
        None,
    ]
