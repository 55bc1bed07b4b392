//! `kukopay-sandbox serve`, and what happens without a subcommand: the settings of the sandbox, checked against each
//! other, and its log.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use url::Url;

use super::Address;
use super::banner::Banner;
use super::storage::StorageChoice;
use crate::config::Config;
use crate::domain::api_key::{self, ApiKeyError};
use crate::domain::id::MerchantId;
use crate::domain::webhook::web_url::NotifyPolicy;
use crate::fixture_files::{self, FixtureFile};
use crate::{app, db};

/// How the sandbox is run.
#[derive(Debug, Args)]
#[expect(clippy::doc_markdown, reason = "the comments are the help text, which a terminal shows as it is")]
pub struct Serve {
    #[command(flatten)]
    address: Address,

    #[command(flatten)]
    pub(super) storage: StorageChoice,

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

    /// Empty and forget merchants that have not called for so long, such as 7d or 12h [default: never]
    #[arg(long, env = "KUKOPAY_FORGET_AFTER", value_name = "TIME", value_parser = forget_after)]
    forget_after: Option<time::Duration>,

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

impl Serve {
    /// Starts the log, and runs the sandbox until a signal stops it.
    pub(super) fn run(self) -> Result<(), String> {
        start_log(self.log_format);
        let config = self.check(std::env::var("DATABASE_URL").ok())?;
        db::prepare_cache(&config.storage)?;
        let banner = Banner::new(&config);
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let outcome = runtime.block_on(app::run(config, |base_url| print!("{}", banner.text(base_url))));
        // Dropping it would wait for blocking calls, however long they take.
        runtime.shutdown_background();
        outcome.map_err(|error| error.to_string())
    }

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
            forget_after: self.forget_after,
            pool_size: self.pool_size,
            journal_size: self.journal_size,
            storage: self.storage.decide(database_url)?,
        })
    }
}

/// The log goes to standard error, so that standard output holds the banner alone. `RUST_LOG` filters it.
fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("kukopay_sandbox=info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}

fn merchants(api_keys: &[String]) -> Result<Option<HashSet<MerchantId>>, String> {
    if api_keys.is_empty() {
        return Ok(None);
    }
    // The message names the position, not the key: it may be somebody's live key.
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

/// At least an hour, because the time of the last call is known to the hour; at most ten years.
fn forget_after(text: &str) -> Result<time::Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let hours = 1..=10 * 365 * 24;
    if hours.contains(&(time.as_secs() / 3600)) {
        time::Duration::try_from(time).map_err(|error| error.to_string())
    } else {
        Err("must be from 1h to 10 years".to_owned())
    }
}
