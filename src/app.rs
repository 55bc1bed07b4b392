//! Wiring: settings → database → router and workers → a listening server, and its graceful stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::db::{Database, DbError};
use crate::fixture_files::FixtureFile;
use crate::service::fixtures::{self, NotLoaded};
use crate::service::journal::Journal;
use crate::service::{Gateway, WorkError};
use crate::worker::JournalWorker;
use crate::{http, worker};

/// How long running requests and workers may take to finish after a signal. Their own deadline is
/// shorter, so that only a client that sends or reads slowly is cut off.
const FINISH_WITHIN: Duration = Duration::from_secs(8);
/// How long the database may take to close after that; ten seconds in all.
const CLOSE_WITHIN: Duration = Duration::from_millis(1500);

/// How long a database server may take to come up, as in a set of containers that start together.
const DATABASE_WITHIN: Duration = Duration::from_mins(1);
const DATABASE_RETRY: Duration = Duration::from_millis(500);

/// Why the sandbox does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; choose another port with --port (0 picks a free one)")]
    Listen(SocketAddr, std::io::Error),
    /// The database cannot be opened.
    #[error("{0}")]
    Database(#[from] DbError),
    /// The database did not come up in time, in seconds.
    #[error("{0}; gave up after {1} s")]
    Waited(#[source] DbError, u64),
    /// Fixtures contradict what the database holds. None was loaded.
    #[error("{0}")]
    Fixtures(String),
}

/// A sandbox that listens. Until its tables are up to date, calls are answered with 503.
#[derive(Debug)]
pub struct App {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    server: JoinHandle<()>,
    journal: JournalWorker,
    fixtures: Vec<FixtureFile>,
    forget_after: Option<time::Duration>,
    workers: TaskTracker,
    stop: CancellationToken,
}

impl App {
    /// Opens the database and starts to listen.
    ///
    /// # Errors
    /// An address in use, or a database that cannot be opened as configured.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let wanted = SocketAddr::new(config.host, config.port);
        let listener = TcpListener::bind(wanted).await.map_err(|error| StartError::Listen(wanted, error))?;
        let address = listener.local_addr().map_err(|error| StartError::Listen(wanted, error))?;
        let db = Database::open(&config.storage, config.pool_size).await?;
        let public_url = config.public_url.unwrap_or_else(|| format!("http://{}", reachable(address)));
        let (journal, journal_entries) = Journal::new(config.journal_size);
        let gateway = Gateway::new(db, public_url, config.notify_policy, config.merchants, journal);
        let gateway = Arc::new(gateway);

        let stop = CancellationToken::new();
        let server = http::serve(listener, http::router(Arc::clone(&gateway)), stop.clone());
        Ok(Self {
            server: tokio::spawn(server),
            journal: JournalWorker::start(Arc::clone(&gateway), journal_entries),
            gateway,
            address,
            fixtures: config.fixtures,
            forget_after: config.forget_after,
            workers: TaskTracker::new(),
            stop,
        })
    }

    /// Brings the tables up to date, waiting for a server that is still starting; loads the fixtures; then
    /// lets calls in and starts the workers.
    ///
    /// # Errors
    /// A database that says no, or does not come up in time, or fixtures that contradict what it holds.
    pub async fn become_ready(&self) -> Result<(), StartError> {
        self.bring_tables_up_to_date().await?;
        self.gateway.follow_time().await?;
        self.load_fixtures().await?;
        worker::start(&self.gateway, &self.workers, &self.stop, self.forget_after);
        self.gateway.health.set_ready();
        Ok(())
    }

    async fn bring_tables_up_to_date(&self) -> Result<(), StartError> {
        let started = Instant::now();
        let mut told = String::new();
        loop {
            let error = match self.gateway.db.migrate().await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_final_at_start() => return Err(error.into()),
                Err(error) => error,
            };
            if started.elapsed() > DATABASE_WITHIN {
                return Err(StartError::Waited(error, DATABASE_WITHIN.as_secs()));
            }
            // Each cause is logged once, not with every attempt.
            let cause = error.to_string();
            if cause != told {
                tracing::warn!("{cause}, waiting up to {} s", DATABASE_WITHIN.as_secs());
                told = cause;
            }
            tokio::time::sleep(DATABASE_RETRY).await;
        }
    }

    async fn load_fixtures(&self) -> Result<(), StartError> {
        if self.fixtures.is_empty() {
            return Ok(());
        }
        let all = self.fixtures.iter().map(|file| (file.merchant, file.fixtures.clone())).collect();
        match fixtures::load(&self.gateway, all).await {
            Ok(loaded) => tracing::info!(loaded.orders, loaded.refunds, "loaded fixtures"),
            Err(NotLoaded { error: WorkError::Failed(error), .. }) => return Err(error.into()),
            Err(NotLoaded { index, error: WorkError::Refused(refusal) }) => {
                let what = self.fixtures.get(index).map(|file| file.describe(&refusal.errors()));
                return Err(StartError::Fixtures(what.unwrap_or_else(|| refusal.message())));
            }
        }
        Ok(())
    }

    /// The base URL at which this machine reaches the sandbox.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", reachable(self.address))
    }

    /// Stops listening, lets running requests and the work behind them finish, and closes the database.
    pub async fn stop(self) {
        self.stop.cancel();
        self.workers.close();
        self.gateway.running.close();
        let finish = async {
            let _ = self.server.await;
            self.gateway.running.wait().await;
            self.workers.wait().await;
            // Last: it writes the entries of the calls that finished just now.
            self.journal.stop().await;
        };
        if tokio::time::timeout(FINISH_WITHIN, finish).await.is_err() {
            tracing::warn!("stopped before every client had its answer");
        }
        if tokio::time::timeout(CLOSE_WITHIN, self.gateway.db.close()).await.is_err() {
            tracing::warn!("stopped before the database was closed");
        }
    }
}

/// The address that a client connects to: loopback where the listener is on the unspecified address.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (std::net::Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

/// Runs until a signal asks to stop: Ctrl-C, or SIGTERM where there is one.
///
/// # Errors
/// Where the sandbox cannot start.
pub async fn run(config: Config, announce: impl FnOnce(&str)) -> Result<(), StartError> {
    let app = App::start(config).await?;
    let ready = app.become_ready();
    let stopped = tokio::select! {
        ready = ready => { ready?; false }
        () = signal() => true,
    };
    if !stopped {
        announce(&app.base_url());
        signal().await;
    }
    tracing::info!("stopping");
    app.stop().await;
    Ok(())
}

async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
