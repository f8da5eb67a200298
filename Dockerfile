FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY ttlproxy ttlproxy
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && python -m venv /opt/ttlproxy \
 && /opt/ttlproxy/bin/pip install --no-cache-dir "$(ls /wheels/*.whl)[uvloop]"

FROM python:3.11-slim
COPY --from=build /opt/ttlproxy /opt/ttlproxy
ENV PATH=/opt/ttlproxy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TTLPROXY_LISTEN=0.0.0.0:6380
USER 65532:65532
EXPOSE 6380
ENTRYPOINT ["ttlproxy"]
