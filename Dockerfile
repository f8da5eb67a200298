# The image of a proxy: no Redis in it, nothing that writes to its root, and no shell needed.
# The base is named once, in the first FROM: Dependabot updates no name that stands in an ARG.
FROM docker.io/library/python:3.11-slim AS base

FROM base AS build
WORKDIR /src
RUN { command -v strip && command -v cc; } > /dev/null \
 || { apt-get update && apt-get install --yes --no-install-recommends binutils gcc libc6-dev; }
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/ttlproxy \
 && python -m pip --python /opt/ttlproxy/bin/python install --no-cache-dir --require-hashes \
        -r requirements.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY completions completions
COPY man man
COPY ttlproxy ttlproxy
RUN python -m pip --python /opt/ttlproxy/bin/python install --no-cache-dir --no-deps . \
 && /opt/ttlproxy/bin/python -P -c 'import ttlproxy.wire._core' \
 && python -m compileall -q /opt/ttlproxy/lib \
 && find /opt/ttlproxy -name '*.so' -exec strip --strip-unneeded {} +

FROM base
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title=ttlproxy \
      org.opencontainers.image.description="A RESP proxy that gives elements of Redis collections a time to live" \
      org.opencontainers.image.licenses=MIT \
      org.opencontainers.image.version=${VERSION}
COPY --from=build /opt/ttlproxy /opt/ttlproxy
ENV PATH=/opt/ttlproxy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TTLPROXY_LISTEN=0.0.0.0:6380 \
    TTLPROXY_ADMIN=127.0.0.1:9380
USER 65532:65532
EXPOSE 6380
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["ttlproxy", "healthcheck"]
ENTRYPOINT ["ttlproxy"]
