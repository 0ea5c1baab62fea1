# fedgrid in a container, on CPUs or NVIDIA GPUs: PyTorch's packages bring CUDA's libraries with them.
#   docker build --tag fedgrid .
#   docker build --tag fedgrid:cuda --build-arg BASE=nvidia/cuda:13.0.1-base-ubuntu24.04 .
#   docker run --rm --shm-size 4g --volume fedgrid-runs:/runs fedgrid run quickstart
#   docker run --rm --shm-size 4g --volume fedgrid-runs:/runs --gpus all fedgrid:cuda run quickstart
ARG BASE=python:3.11-slim
FROM ${BASE}

# The CUDA image has no Python; that of Ubuntu 24.04 is 3.12.
# hadolint ignore=DL3008
RUN command -v python3 > /dev/null \
    || { apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv \
         && rm -rf /var/lib/apt/lists/*; }

ENV PATH=/opt/fedgrid/bin:$PATH \
    FEDGRID_STORAGE=/runs \
    FEDGRID_DATA=/runs/data
COPY . /tmp/fedgrid
RUN python3 -m venv /opt/fedgrid \
    && pip install --no-cache-dir --constraint /tmp/fedgrid/constraints.txt /tmp/fedgrid \
    && rm -rf /tmp/fedgrid \
    && useradd --create-home --uid 10001 fedgrid \
    && install --directory --owner fedgrid /runs

USER 10001
WORKDIR /home/fedgrid
VOLUME /runs
ENTRYPOINT ["fedgrid"]
CMD ["--help"]
