//! What start-up prints: where the sandbox listens, where its data lives, a key to copy and a first
//! call. Never a configured key or a password.

use crate::config::Config;
use crate::db::Storage;

const ANY_KEY: &str = "kuko_test_local_000001";

/// The start-up lines. They are made before the app takes the settings.
#[derive(Debug)]
pub(super) struct Banner {
    data: String,
    any_key: bool,
}

impl Banner {
    /// The banner for these settings.
    pub(super) fn new(config: &Config) -> Self {
        Self { data: describe(&config.storage), any_key: config.merchants.is_none() }
    }

    /// The lines, once the base URL is known.
    pub(super) fn text(&self, base_url: &str) -> String {
        let (key_line, key) = if self.any_key {
            (format!("{ANY_KEY}  (any kuko_test_ key works; each is a merchant of its own)"), ANY_KEY)
        } else {
            ("one of those in --api-keys".to_owned(), "$KUKOPAY_API_KEY")
        };
        format!(
            r#"kukopay-sandbox {version} is ready
  base URL  {base_url}
  data      {data}
  test key  {key_line}

Try it, then send it again and see the replay:
  curl -i {base_url}/v1/orders -H "X-Api-Key: {key}" -H "Idempotency-Key: first-order" \
    -H "Content-Type: application/json" \
    -d '{{"out_trade_no":"ORDER_1","amount":2990,"currency":"USD","subject":"Pro plan"}}'
"#,
            version = env!("CARGO_PKG_VERSION"),
            data = self.data,
        )
    }
}

fn describe(storage: &Storage) -> String {
    match storage {
        Storage::Directory(directory) => {
            format!("{}  (embedded PostgreSQL; --ephemeral keeps nothing)", directory.display())
        }
        Storage::Ephemeral => "kept nowhere  (embedded PostgreSQL, --ephemeral)".to_owned(),
        Storage::Server(server) => {
            let place = server.place().unwrap_or_else(|| "the configured URL".to_owned());
            format!("PostgreSQL server at {place}  ({})", server.source())
        }
    }
}
