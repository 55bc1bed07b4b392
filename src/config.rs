//! The settings of a sandbox, checked against each other: what `app` is started with.

use std::collections::HashSet;
use std::net::IpAddr;

use crate::db::Storage;
use crate::domain::id::MerchantId;
use crate::domain::webhook::web_url::NotifyPolicy;
use crate::fixture_files::FixtureFile;

/// The settings, which fit together.
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
    /// A merchant without a call for this long is forgotten; `None` forgets nobody.
    pub forget_after: Option<time::Duration>,
}
