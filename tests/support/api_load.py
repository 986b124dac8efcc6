"""Requests over HTTP that go on until they are told to stop."""

import threading
from contextlib import contextmanager

import httpx


@contextmanager
def api_load(base_url, key, models, *, num_tokens=200):
    """One client for each model, which asks again as soon as it has its answer.

    Yields what was refused, each as its text; a client that is refused stops.
    """
    stop = threading.Event()
    failures = []

    def ask(model):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Tell me a long story about a village."}],
            "max_tokens": num_tokens,
        }
        with httpx.Client(base_url=base_url, timeout=60.0) as client:
            while not stop.is_set():
                answer = client.post(
                    "/v1/chat/completions",
                    json=body,
                    headers={"authorization": f"Bearer {key}"},
                )
                if not answer.is_success:
                    failures.append(answer.text)
                    return

    threads = [threading.Thread(target=ask, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        stop.set()
        for thread in threads:
            thread.join()
