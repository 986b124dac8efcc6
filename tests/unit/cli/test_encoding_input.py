"""Texts go to the node as many at a time as it takes."""

from edgelora.cli.encoding_input import batches


def test_all_texts_come_in_order_and_no_batch_is_larger_than_asked():
    texts = [str(number) for number in range(130)]
    assert [len(batch) for batch in batches(texts)] == [64, 64, 2]
    few = list(batches([*texts, ""], 5))
    assert {len(batch) for batch in few} == {5}
    assert [text for batch in few for text in batch] == texts
