"""`edgelora up --encoder`: a classifier beside the adapters of the decoder, over every door."""

import openai
import pytest

from tests.support.encoder_bench import labels_of
from tests.support.tiny_encoder import classifier_files, prepare_tiny_encoder
from tests.support.up_process import up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

ENCODER = "tiny-encoder"
LABELS = labels_of(1, 3)
TEXT = "the cat sat on the mat"


def save(files, directory):
    directory.mkdir()
    (directory / "adapter_config.json").write_bytes(files.config)
    (directory / "adapter_model.safetensors").write_bytes(files.weights)
    (directory / "head.json").write_bytes(files.head)
    return str(directory)


def test_a_classifier_is_registered_and_asked_over_grpc_and_http(tmp_path):
    arguments = ("--encoder", ENCODER, "--no-demo", "--port", "0", "--http-port", "0")
    with up_process(tmp_path, *arguments) as up:
        prepare_tiny_encoder(up.home)
        up.start().wait_until_serving()
        up.run("tenants", "add", "alice")
        directory = save(classifier_files(LABELS), tmp_path / "intents")
        up.run("adapters", "add", directory, "--alias", "intents", "--tenant", "alice")
        found = up.run_json("classify", "-a", "intents", "--tenant", "alice", "--top", "3", TEXT)
        (over_grpc,) = found["classifications"]
        assert {each["label"] for each in over_grpc["labels"]} == set(LABELS)
        assert sum(each["probability"] for each in over_grpc["labels"]) == pytest.approx(1.0)
        line = up.run("classify", "-a", "intents", "--tenant", "alice", text=f"{TEXT}\n\n")
        assert line.startswith(over_grpc["labels"][0]["label"])
        (vector,) = up.run_json("embed", "--tenant", "alice", TEXT)["embeddings"]

        key = (up.home / "keys/alice.key").read_text().strip()
        url = f"http://{up.state['http_address']}/v1"
        with openai.OpenAI(api_key=key, base_url=url, max_retries=0) as client:
            classified = client.post(
                "/classify", body={"model": "intents", "input": TEXT, "top": 3}, cast_to=object
            )
            assert classified["data"][0]["labels"] == over_grpc["labels"]
            embedded = client.embeddings.create(model=ENCODER, input=TEXT)
            assert embedded.data[0].embedding == pytest.approx(vector["embedding"])
            for model, words in (("intents", "use Classify or Embed"), (ENCODER, "not served by")):
                with pytest.raises(openai.APIStatusError, match=words):
                    client.chat.completions.create(
                        model=model, messages=[{"role": "user", "content": "Hi."}]
                    )
        services = {each["name"] for each in up.run_json("status", "--tenant", "alice")["services"]}
        assert {"inference", "encoder"} <= services
        assert up.stop() == 0
        assert up.leftovers() == []
