# Two stages: the first builds a wheel and installs it into /venv, the second has /venv and nothing to build with.

FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY service ./service
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
COPY constraints.txt ./
RUN python -m venv /venv \
    && /venv/bin/python -m pip install --no-cache-dir --constraint constraints.txt "$(echo /wheels/*.whl)[nats,simd]" \
    && /venv/bin/python -m pip uninstall --yes pip

FROM python:3.13-slim
LABEL org.opencontainers.image.title="Novikoff" \
      org.opencontainers.image.description="Online learning over HTTP: predict, reveal, update." \
      org.opencontainers.image.licenses="MIT"

# The numbers are fixed, so that a volume stays readable from one image to the next.
RUN groupadd --system --gid 10001 novikoff \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin novikoff \
    && install --directory --owner 10001 --group 10001 --mode 0750 /data
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
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['NOVIKOFF_PORT'] + '/livez', timeout=2)"]

# Exec form: novikoff is process 1 and gets the signal itself.
ENTRYPOINT ["novikoff"]
CMD ["serve"]
