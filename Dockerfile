# syntax=docker/dockerfile:1
# The service as an image: docker build -t skill-runner .
# docs/deploy.md says how to run it.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock rust-toolchain.toml build.rs ./
COPY shim ./shim
COPY schema ./schema
COPY skills ./skills
COPY ui ./ui
COPY benches ./benches
COPY tests ./tests
COPY src ./src
RUN cargo build --locked --release --bin skill-runner

FROM debian:bookworm-slim
# python3 for the scripts of skills and their packages, curl for the health check, certificates for engines and installers.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 skill-runner \
    && useradd --system --uid 10001 --gid skill-runner --home-dir /data --shell /usr/sbin/nologin skill-runner \
    && install --directory --owner=skill-runner --group=skill-runner --mode=0700 /data /backups /shared \
    && install --directory --owner=skill-runner --group=skill-runner --mode=0755 /skills /configs
COPY --from=build /src/target/release/skill-runner /usr/local/bin/skill-runner
USER 10001:10001
WORKDIR /data
# Every setting has a variable; a token is needed to listen beyond loopback, and is given at the start.
ENV SKILL_RUNNER_HOST=0.0.0.0 \
    SKILL_RUNNER_PORT=8000 \
    SKILL_RUNNER_DATA_DIR=/data \
    SKILL_RUNNER_SKILLS_DIR=/skills \
    SKILL_RUNNER_CONFIGS_DIR=/configs \
    SKILL_RUNNER_BACKUP_DIR=/backups
VOLUME ["/data", "/skills", "/backups"]
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["curl", "--fail", "--silent", "--show-error", "--output", "/dev/null", "http://127.0.0.1:8000/healthz"]
# Engines are ended in good order: longer than drain_grace_seconds, which is 30.
STOPSIGNAL SIGTERM
ENTRYPOINT ["skill-runner"]
CMD ["serve"]
