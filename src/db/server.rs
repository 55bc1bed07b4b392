//! A PostgreSQL server as the settings name it: its URL, read as libpq reads it, and the first connection, whose
//! errors say in plain words what is wrong. No error quotes the password.

use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection};
use url::Url;

use super::{DbError, PgConnection};

/// The oldest PostgreSQL that the migrations run on, as `server_version_num` has it.
const OLDEST: u32 = 150_000;
/// How long one attempt to connect may take, before it counts as no answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The SQLSTATE for a connection that `pg_hba.conf` does not allow.
const NOT_AUTHORIZED: &str = "28000";
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Where a server is, and which setting says so.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    url: String,
    source: &'static str,
}

impl ServerUrl {
    /// A URL of the form `postgres://user:password@host/database`, which is checked when the database is
    /// opened. `source` is the flag or variable that it was read from.
    #[must_use]
    pub const fn new(url: String, source: &'static str) -> Self {
        Self { url, source }
    }

    /// The flag or variable that the URL was read from.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// The host and the database, for people; `None` where the URL does not name them.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let url = Url::parse(&self.url).ok()?;
        let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
        Some(format!("{host}{}", url.path()))
    }

    /// What to connect with.
    pub(super) fn options(&self) -> Result<PgConnectOptions, DbError> {
        let malformed = || self.setup("is not of the form postgres://user:password@host/database");
        let mut url = Url::parse(&self.url).map_err(|_| malformed())?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(malformed());
        }
        let mode = parameter(&url, "sslmode").or_else(|| std::env::var("PGSSLMODE").ok());
        if let Some(mode) = mode.as_deref().filter(|mode| !SSL_MODES.contains(mode)) {
            return Err(self.setup(&format!("asks for sslmode={mode}; use one of {}", SSL_MODES.join(", "))));
        }
        let root = parameter(&url, "sslrootcert").or_else(|| std::env::var("PGSSLROOTCERT").ok());
        if root.as_deref() == Some("system") {
            remove_parameter(&mut url, "sslrootcert");
        }
        let options: PgConnectOptions = url.as_str().parse().map_err(|_| malformed())?;
        self.secured(options, mode.as_deref(), root.as_deref())
    }

    /// What libpq does and sqlx does not: a root certificate makes `require` check the server's certificate,
    /// `system` means the public authorities and the host's name, and a Unix socket needs no TLS.
    ///
    /// Unlike libpq, a server on this machine is asked for TLS only if the settings say so. TLS protects nothing
    /// that does not leave the machine, and it is slow: sqlx 0.9.0 does not set `TCP_NODELAY`, so a statement of two
    /// TLS records waits up to 40 ms for the server to acknowledge the first.
    fn secured(
        &self,
        options: PgConnectOptions,
        mode: Option<&str>,
        root: Option<&str>,
    ) -> Result<PgConnectOptions, DbError> {
        if options.get_socket().is_some() || options.get_host().starts_with('/') {
            return Ok(options.ssl_mode(PgSslMode::Disable));
        }
        if mode.is_none() && root.is_none() && is_loopback(options.get_host()) {
            return Ok(options.ssl_mode(PgSslMode::Disable));
        }
        match root {
            None | Some("") => Ok(options),
            Some("system") => match mode {
                None | Some("verify-full") => Ok(options.ssl_mode(PgSslMode::VerifyFull)),
                Some(weaker) => Err(self.setup(&format!(
                    "asks for sslrootcert=system with sslmode={weaker}, which is too weak; use verify-full"
                ))),
            },
            Some(file) => {
                std::fs::File::open(file).map_err(|error| {
                    self.setup(&format!("names sslrootcert {file}, which cannot be read: {error}"))
                })?;
                Ok(if mode == Some("require") { options.ssl_mode(PgSslMode::VerifyCa) } else { options })
            }
        }
    }

    fn setup(&self, what: &str) -> DbError {
        DbError::Setup(format!("the database URL in {} {what}", self.source))
    }

    /// Connects once. An error that waiting may mend is [`DbError::Unreachable`], any other is [`DbError::Setup`].
    pub(super) async fn connect(&self, options: &PgConnectOptions) -> Result<PgConnection, DbError> {
        let place = address(options);
        let connecting = tokio::time::timeout(CONNECT_WITHIN, options.connect()).await;
        let conn = match connecting {
            Ok(Ok(conn)) => conn,
            Ok(Err(error)) => return Err(self.not_connected(error, &place, options)),
            Err(_) => return Err(DbError::Unreachable(format!("no answer from {place}"))),
        };
        match conn.server_version_num() {
            Some(version) if version < OLDEST => {
                let _ = conn.close().await;
                let major = version / 10_000;
                Err(DbError::Setup(format!(
                    "the server at {place} ({}) is PostgreSQL {major}; the sandbox needs 15 or later",
                    self.source
                )))
            }
            _ => Ok(conn),
        }
    }

    fn not_connected(&self, error: sqlx::Error, place: &str, options: &PgConnectOptions) -> DbError {
        let source = self.source;
        let mode = options.get_ssl_mode();
        match error {
            sqlx::Error::Io(error) => match error.kind() {
                ErrorKind::ConnectionRefused => {
                    DbError::Unreachable(format!("connection refused by {place} ({source})"))
                }
                // A certificate or a protocol that rustls refuses.
                ErrorKind::InvalidData => DbError::Setup(format!(
                    "no TLS with {place} ({source}, sslmode={}): {error}; sslrootcert names the file of the \
                     authority that signed the server's certificate",
                    name_of(mode)
                )),
                _ => DbError::Unreachable(format!("{place} ({source}) cannot be reached: {error}")),
            },
            sqlx::Error::Database(refused) => {
                let mut text = format!("{place} ({source}) refuses the connection: {}", refused.message());
                if matches!(mode, PgSslMode::Disable) && refused.code().as_deref() == Some(NOT_AUTHORIZED) {
                    text += "; if it asks for TLS, add sslmode=require to the URL";
                }
                if DbError::may_pass(&*refused) { DbError::Unreachable(text) } else { DbError::Setup(text) }
            }
            sqlx::Error::Tls(error) => {
                DbError::Setup(format!("no TLS with {place} ({source}, sslmode={}): {error}", name_of(mode)))
            }
            other => DbError::Setup(format!(
                "{place} ({source}) does not answer as a PostgreSQL server does: {other}"
            )),
        }
    }
}

/// Without the password.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerUrl").field("source", &self.source).finish_non_exhaustive()
    }
}

fn address(options: &PgConnectOptions) -> String {
    let socket = options.get_socket().map(|path| path.display().to_string());
    match socket {
        Some(path) => format!("the socket in {path}"),
        None if options.get_host().contains(':') => {
            format!("[{}]:{}", options.get_host(), options.get_port())
        }
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

const fn name_of(mode: PgSslMode) -> &'static str {
    match mode {
        PgSslMode::Disable => "disable",
        PgSslMode::Allow => "allow",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
    }
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().filter(|(key, _)| key == name).last().map(|(_, value)| value.into_owned())
}

fn remove_parameter(url: &mut Url, name: &str) {
    let kept: Vec<_> = url
        .query_pairs()
        .filter(|(key, _)| key != name)
        .map(|(k, v)| (k.into_owned(), v.into_owned()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<PgConnectOptions, String> {
        ServerUrl::new(url.to_owned(), "DATABASE_URL").options().map_err(|error| error.to_string())
    }

    fn mode(url: &str) -> &'static str {
        name_of(read(url).unwrap().get_ssl_mode())
    }

    #[test]
    fn tls_is_read_as_libpq_reads_it() {
        let authority = env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml";
        assert_eq!(mode("postgres://a@h/d"), "prefer");
        assert_eq!(mode("postgres://a@h/d?sslmode=require"), "require");
        assert_eq!(mode(&format!("postgres://a@h/d?sslmode=require&sslrootcert={authority}")), "verify-ca");
        assert_eq!(
            mode(&format!("postgres://a@h/d?sslmode=verify-full&sslrootcert={authority}")),
            "verify-full"
        );
        assert_eq!(mode("postgres://a@h/d?sslrootcert=system"), "verify-full");
        assert_eq!(mode("postgres:///d?host=/var/run/postgresql&sslmode=require"), "disable");
    }

    #[test]
    fn a_server_on_this_machine_is_asked_for_tls_only_where_the_settings_say_so() {
        for host in ["localhost", "127.0.0.1"] {
            assert_eq!(mode(&format!("postgres://a@{host}/d")), "disable");
            assert_eq!(mode(&format!("postgres://a@{host}/d?sslmode=prefer")), "prefer");
            assert_eq!(mode(&format!("postgres://a@{host}/d?sslmode=require")), "require");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_it() {
        for (url, expected) in [
            ("s3cret-w0rd", "DATABASE_URL is not of the form postgres://"),
            ("mysql://a:s3cret-w0rd@h/d", "DATABASE_URL is not of the form postgres://"),
            ("postgres://a:s3cret-w0rd@h:x/d", "DATABASE_URL is not of the form postgres://"),
            ("postgres://a:s3cret-w0rd@h/d?sslmode=on", "sslmode=on; use one of disable, allow"),
            ("postgres://a:s3cret-w0rd@h/d?sslrootcert=/none", "sslrootcert /none, which cannot be read"),
            ("postgres://a:s3cret-w0rd@h/d?sslrootcert=system&sslmode=require", "too weak; use verify-full"),
        ] {
            let message = read(url).unwrap_err();
            assert!(message.contains(expected) && !message.contains("s3cret"), "{message}");
            let shown = format!("{:?}", ServerUrl::new(url.to_owned(), "DATABASE_URL"));
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
