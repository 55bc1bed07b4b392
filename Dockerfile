# The sandbox as a small image: built without the embedded database, so it needs DATABASE_URL.
# docker-compose.yml runs it together with a PostgreSQL.

FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY migrations migrations
COPY src src
COPY templates templates
# The caches outlive a build, so that a change in src does not compile the dependencies again.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --no-default-features \
    && cp target/release/kukopay-sandbox /usr/local/bin/

FROM debian:bookworm-slim
# The authorities by which the certificates of receivers are verified.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /usr/local/bin/kukopay-sandbox /usr/local/bin/
# No name is needed for a user that owns no files.
USER 10001:10001
# Inside of a container, loopback would be reached by nobody.
ENV KUKOPAY_HOST=0.0.0.0
EXPOSE 5856
HEALTHCHECK --interval=5s --timeout=8s --start-period=60s --retries=3 \
    CMD ["kukopay-sandbox", "healthcheck"]
ENTRYPOINT ["kukopay-sandbox"]
