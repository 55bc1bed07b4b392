//! The server that all tests share. It runs on a runtime of its own, since that of a test ends with it.

use std::sync::{OnceLock, mpsc};

use kukopay_sandbox::app::App;
use kukopay_sandbox::config::Config;
use kukopay_sandbox::db::{ServerUrl, Storage};
use kukopay_sandbox::domain::webhook::web_url::NotifyPolicy;

/// The database server to test on, if one is named.
pub(crate) fn database_url() -> Option<String> {
    std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty())
}

/// The base URL of the shared server, which the first caller starts.
pub(crate) fn base_url() -> &'static str {
    static BASE_URL: OnceLock<String> = OnceLock::new();
    BASE_URL.get_or_init(|| {
        let (started, base_url) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let app = App::start(config()).await.expect("the server starts");
                app.become_ready().await.expect("the database is ready");
                started.send(app.base_url()).expect("somebody waits");
                std::future::pending::<()>().await;
            });
        });
        base_url.recv().expect("the server has started")
    })
}

/// The database that tests run on.
pub(crate) fn storage() -> Storage {
    database_url().map_or(Storage::Ephemeral, |url| Storage::Server(ServerUrl::new(url, "DATABASE_URL")))
}

fn config() -> Config {
    let pool_size = std::env::var("KUKOPAY_POOL_SIZE").ok();
    Config {
        host: std::net::Ipv4Addr::LOCALHOST.into(),
        port: 0,
        storage: storage(),
        pool_size: pool_size.map_or(16, |size| size.parse().expect("a pool size")),
        merchants: None,
        public_url: None,
        notify_policy: NotifyPolicy::Anywhere,
        journal_size: 10_000,
        fixtures: Vec::new(),
        forget_after: None,
    }
}
