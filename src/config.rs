//! The command line and its environment variables, checked against each other.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use directories::ProjectDirs;
use url::Url;

use crate::db::Storage;
use crate::domain::api_key::{self, ApiKeyError};
use crate::domain::id::MerchantId;
use crate::domain::signature::TOLERANCE_SECONDS;
use crate::domain::web_url::NotifyPolicy;
use crate::fixture_files::{self, FixtureFile};

/// The KukoPay payment gateway as a sandbox for your laptop and CI: real orders, refunds and
/// idempotency on a real Postgres.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

/// What the command does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the sandbox (what happens without a subcommand, too)
    Serve(Serve),
    /// Exit with 0 if the sandbox on this machine is ready, else with 1: for a container's health check
    Healthcheck(Address),
    /// Print the header that signs a webhook's body, which is read from standard input as it is
    ///
    /// For curl: curl -H "$(kukopay-sandbox sign --secret S < body.json)" --data-binary @body.json URL
    ///
    /// Every byte counts: echo adds a line break to a body, printf does not; curl -d takes line breaks out of
    /// a file, --data-binary does not.
    Sign(Sign),
    /// Check the signature of a webhook's body, which is read from standard input as it is; exit with 0 if
    /// it is valid, else with 1 and the reason
    ///
    /// Every byte counts: echo adds a line break to a body, printf does not; and JSON that was parsed and
    /// written again has other bytes.
    VerifySignature(VerifySignature),
    /// Say whether a client is safe to retry, by what a running sandbox saw of it: exits with 0 if so, with
    /// 1 on findings, and with 2 if there was no answer
    Audit(Audit),
}

/// What signs webhooks.
#[derive(Args)]
pub struct SigningKey {
    /// The secret of the webhook
    #[arg(long, env = "KUKOPAY_WEBHOOK_SECRET", hide_env_values = true)]
    pub secret: String,
}

/// Without the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// How a body is signed.
#[derive(Debug, Args)]
pub struct Sign {
    #[command(flatten)]
    pub(crate) key: SigningKey,

    /// The time of the signature, in Unix seconds [default: now]
    #[arg(long, allow_negative_numbers = true)]
    pub timestamp: Option<i64>,
}

/// How a signature is checked.
#[derive(Debug, Args)]
pub struct VerifySignature {
    #[command(flatten)]
    pub(crate) key: SigningKey,

    /// The header X-KukoPay-Signature, with or without its name
    #[arg(long)]
    pub header: String,

    /// The time at which it is checked, in Unix seconds [default: now]
    #[arg(long, allow_negative_numbers = true)]
    pub now: Option<i64>,

    /// How many seconds the signature's time may be off
    #[arg(long, default_value_t = TOLERANCE_SECONDS, value_parser = clap::value_parser!(i64).range(0..))]
    pub tolerance: i64,
}

/// Where the sandbox listens.
#[derive(Debug, Args)]
pub struct Address {
    /// The address that the sandbox listens on; 0.0.0.0 opens it to other machines
    #[arg(long, env = "KUKOPAY_HOST", default_value = "127.0.0.1")]
    pub host: IpAddr,

    /// The port that the sandbox listens on; 0 picks a free one and prints it
    #[arg(long, env = "KUKOPAY_PORT", default_value_t = 5856)]
    pub port: u16,
}

/// Whose audit is asked for.
#[derive(Args)]
pub struct Audit {
    /// Where the sandbox is
    #[arg(long, env = "KUKOPAY_URL", default_value = "http://127.0.0.1:5856")]
    pub url: Url,

    /// The API key that the client used
    #[arg(long, env = "KUKOPAY_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: String,

    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,

    /// The shortest pause between a failed attempt and the next one, in milliseconds [default: 500]
    #[arg(long, value_name = "N")]
    pub min_backoff_ms: Option<u32>,
}

/// How the sandbox is run.
#[derive(Debug, Args)]
#[expect(clippy::doc_markdown, reason = "the comments are the help text, which a terminal shows as it is")]
pub struct Serve {
    #[command(flatten)]
    address: Address,

    /// A PostgreSQL server (15 or later) with a database for the sandbox alone, instead of the embedded
    /// one: postgres://user:password@host/database. KUKOPAY_DATABASE_URL goes before DATABASE_URL
    #[arg(long, env = "KUKOPAY_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,

    /// Where the embedded database keeps its data [default: a folder in the platform's data directory]
    #[arg(long, env = "KUKOPAY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Keep nothing: the embedded database starts empty and is gone with the process
    #[arg(long, env = "KUKOPAY_EPHEMERAL", value_parser = BoolishValueParser::new())]
    ephemeral: bool,

    /// Let in only these API keys, separated by commas [default: every well-formed kuko_test_ key]
    #[arg(
        long,
        env = "KUKOPAY_API_KEYS",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "KEYS"
    )]
    api_keys: Vec<String>,

    /// What checkout_url starts with, where buyers reach the sandbox by another name
    /// [default: the address it listens on]
    #[arg(long, env = "KUKOPAY_PUBLIC_URL")]
    public_url: Option<Url>,

    /// Take only public https URLs as notify_url, as production does
    #[arg(long, env = "KUKOPAY_STRICT_URLS", value_parser = BoolishValueParser::new())]
    strict_urls: bool,

    /// Load the fixtures of a folder at start: its .json, .yaml and .yml files, all or nothing
    #[arg(long, env = "KUKOPAY_FIXTURES", value_name = "DIR")]
    fixtures: Option<PathBuf>,

    /// How many calls of a merchant the journal keeps; 0 keeps none
    #[arg(long, env = "KUKOPAY_JOURNAL_SIZE", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    journal_size: u32,

    /// How log lines look
    #[arg(long, env = "KUKOPAY_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// How many connections to keep to a PostgreSQL server; the embedded database has one
    #[arg(long, env = "KUKOPAY_POOL_SIZE", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pool_size: u32,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings that fit together.
#[derive(Debug)]
pub struct Config {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port to listen on; 0 picks a free one.
    pub port: u16,
    /// Where the data lives.
    pub storage: Storage,
    /// How many connections to keep to a server.
    pub pool_size: u32,
    /// The merchants that are let in; `None` lets in every well-formed key.
    pub merchants: Option<HashSet<MerchantId>>,
    /// What `checkout_url` starts with, without a slash at its end; `None` for the listening address.
    pub public_url: Option<String>,
    /// Where webhooks may go.
    pub notify_policy: NotifyPolicy,
    /// How many calls of a merchant the journal keeps.
    pub journal_size: u32,
    /// What is loaded at start.
    pub fixtures: Vec<FixtureFile>,
}

/// Without the key.
impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Cli {
    /// What to do.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

impl Serve {
    /// Checks the settings against each other. `database_url` is the environment's `DATABASE_URL`.
    ///
    /// # Errors
    /// What does not fit, and what to change.
    pub fn check(self, database_url: Option<String>) -> Result<Config, String> {
        let notify_policy = if self.strict_urls { NotifyPolicy::PublicHttps } else { NotifyPolicy::Anywhere };
        let merchants = merchants(&self.api_keys)?;
        Ok(Config {
            host: self.address.host,
            port: self.address.port,
            public_url: self.public_url.as_ref().map(public_url).transpose()?,
            notify_policy,
            fixtures: fixtures(self.fixtures.as_deref(), notify_policy, merchants.as_ref())?,
            merchants,
            pool_size: self.pool_size,
            journal_size: self.journal_size,
            storage: self.storage(database_url)?,
        })
    }

    fn storage(self, database_url: Option<String>) -> Result<Storage, String> {
        let server = [self.database_url, database_url].into_iter().flatten().find(|url| !url.is_empty());
        match (server, self.data_dir, self.ephemeral) {
            (Some(url), None, false) => Ok(Storage::Server(url)),
            (None, Some(directory), false) => Ok(Storage::Directory(directory)),
            (None, None, true) => Ok(Storage::Ephemeral),
            (None, None, false) => ProjectDirs::from("", "", "kukopay-sandbox")
                .map(|dirs| Storage::Directory(dirs.data_dir().to_path_buf()))
                .ok_or_else(|| {
                    "this platform has no data directory for the user; name one with --data-dir".to_owned()
                }),
            (Some(_), ..) => {
                Err("a database URL (--database-url, KUKOPAY_DATABASE_URL or DATABASE_URL) is set \
                                  together with --data-dir or --ephemeral; unset one of them"
                    .to_owned())
            }
            (None, Some(_), true) => {
                Err("--data-dir and --ephemeral exclude each other; leave one out".to_owned())
            }
        }
    }
}

fn merchants(api_keys: &[String]) -> Result<Option<HashSet<MerchantId>>, String> {
    if api_keys.is_empty() {
        return Ok(None);
    }
    // The position, and not the key: what is refused may be somebody's live key.
    let read = |(index, key): (usize, &String)| {
        api_key::merchant_of(key.trim()).map_err(|error| match error {
            ApiKeyError::Live => format!("--api-keys: key {} is a live key; never use one here", index + 1),
            ApiKeyError::Malformed => {
                format!(
                    "--api-keys: key {} is not kuko_test_ followed by 8 to 64 of A-Z a-z 0-9 _ -",
                    index + 1
                )
            }
        })
    };
    api_keys.iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
}

fn fixtures(
    directory: Option<&Path>,
    policy: NotifyPolicy,
    merchants: Option<&HashSet<MerchantId>>,
) -> Result<Vec<FixtureFile>, String> {
    let files =
        directory.map(|directory| fixture_files::read(directory, policy)).transpose()?.unwrap_or_default();
    for file in &files {
        if merchants.is_some_and(|merchants| !merchants.contains(&file.merchant)) {
            let path = file.path().display();
            return Err(format!(
                "{path}: its api_key is not one of --api-keys; name one of them in the file"
            ));
        }
    }
    Ok(files)
}

fn public_url(url: &Url) -> Result<String, String> {
    let web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if web && url.query().is_none() && url.fragment().is_none() {
        Ok(url.as_str().trim_end_matches('/').to_owned())
    } else {
        Err("--public-url must be an http or https URL without query and fragment".to_owned())
    }
}
