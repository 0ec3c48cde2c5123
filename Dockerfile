# Rota in a container. Any image with Python 3.11 or newer, venv and pip will do as BASE; it is used for both stages, so
# that what is built in the first finds the same Python in the second.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY requirements-build.txt requirements-ui.txt requirements-container.txt ./
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.txt -r requirements-ui.txt \
 && python3 -m venv /opt/rota \
 && /opt/rota/bin/pip install --no-cache-dir --require-hashes -r requirements-container.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY ui ui
COPY tools/build_ui.py tools/build_ui.py
# The wheel is made without isolation: nothing that is not locked by its hash is fetched, by pip
# or by npm, which builds the dashboard.
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /build/wheels . \
 && /opt/rota/bin/pip install --no-cache-dir --no-deps --no-index /build/wheels/*.whl

FROM ${BASE}
# A number, so that Kubernetes can see that it is not root. /data is for a SQLite file, /app for your tasks.
RUN groupadd --system --gid 10001 rota \
 && useradd --system --uid 10001 --gid rota --home-dir /data --no-create-home --shell /usr/sbin/nologin rota \
 && install -d -o rota -g rota /data /app
COPY --from=build /opt/rota /opt/rota
ENV PATH=/opt/rota/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HEALTH_URL=http://127.0.0.1:8080/readyz
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080 9090
# 8080 is the API's, 9090 a worker's; a worker names its own in HEALTH_URL.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python3", "-c", "import os, urllib.request; urllib.request.urlopen(os.environ['HEALTH_URL'], timeout=4)"]
ENTRYPOINT ["rota"]
CMD ["standalone"]
