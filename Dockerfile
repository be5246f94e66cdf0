# Two stages: the first installs into /venv, the second has /venv and nothing to build or install with.

# Python and Debian by their releases, so that a new build has their security fixes. To build from the very same base
# again: --build-arg BASE=python:3.13-slim-trixie@sha256:…
ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS build
WORKDIR /build
# What is installed seldom changes, and the source often does: so that comes later.
COPY deploy/build-requirements.txt ./
RUN python -m venv /builder \
    && /builder/bin/python -m pip install --no-cache-dir --require-hashes --requirement build-requirements.txt
# What Arrow columns, the export to ONNX and spans need. Without it the image is half as large: --build-arg EXTRAS=
ARG EXTRAS="arrow onnx otel"
COPY deploy/requirements.txt deploy/requirements-arrow.txt deploy/requirements-onnx.txt \
    deploy/requirements-otel.txt ./
RUN for extra in ${EXTRAS}; do cat "requirements-${extra}.txt" || exit 1; done >> requirements.txt \
    && /builder/bin/python -m pip wheel --no-cache-dir --require-hashes --no-deps --no-build-isolation \
        --wheel-dir /needed --requirement requirements.txt \
    && python -m venv --without-pip /venv \
    && python -m pip --python /venv/bin/python install --no-cache-dir --no-index --no-deps /needed/*.whl
COPY pyproject.toml README.md LICENSE ./
COPY novikoff ./novikoff
COPY service ./service
RUN /builder/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m pip --python /venv/bin/python install --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="Novikoff" \
      org.opencontainers.image.description="Online learning over HTTP: predict, reveal, update." \
      org.opencontainers.image.licenses="MIT"

# The numbers are fixed, so that a volume stays readable from one image to the next. The base has no bytecode of the
# standard library, which every start would compile again, and the health check with it.
RUN groupadd --system --gid 10001 novikoff \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin novikoff \
    && install --directory --owner 10001 --group 10001 --mode 0750 /data \
    && python -m pip uninstall --yes --root-user-action ignore pip \
    && library="$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && rm -r "${library}/ensurepip" \
    && python -m compileall -q --invalidation-mode unchecked-hash "${library}"
COPY deploy/healthy.py /usr/local/bin/healthy
COPY --from=build /venv /venv

ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NOVIKOFF_HOST=0.0.0.0 \
    NOVIKOFF_PORT=8000 \
    NOVIKOFF_DATA=/data

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["healthy", "/livez"]

# Exec form: novikoff is process 1 and gets the signal itself.
ENTRYPOINT ["novikoff"]
CMD ["serve"]
