//! Where the data lives. Several settings can say so: the one nearest to the user counts.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use directories::ProjectDirs;

use crate::db::{ServerUrl, Storage};

/// The settings that say where the data lives. A flag goes before every variable; the sandbox's own variables go
/// before `DATABASE_URL`, which may be the application's.
#[derive(Args)]
#[expect(clippy::doc_markdown, reason = "the comments are the help text, which a terminal shows as it is")]
pub(super) struct StorageChoice {
    /// A PostgreSQL server (15 or later) with a database for the sandbox alone, instead of the embedded
    /// one: postgres://user:password@host/database, with sslmode and sslrootcert as libpq has them. Without
    /// it, and without the two below, DATABASE_URL is read, too
    #[arg(long, env = "KUKOPAY_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,

    /// Where the embedded database keeps its data [default: a folder in the platform's data directory]
    #[arg(long, env = "KUKOPAY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Keep nothing: the embedded database starts empty and is gone with the process
    #[arg(long, env = "KUKOPAY_EPHEMERAL", value_parser = BoolishValueParser::new())]
    ephemeral: bool,

    /// Which of them were given on the command line.
    #[arg(skip)]
    flags: Flags,
}

/// Without the password of the URL.
impl std::fmt::Debug for StorageChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { data_dir, ephemeral, .. } = self;
        f.debug_struct("StorageChoice")
            .field("data_dir", data_dir)
            .field("ephemeral", ephemeral)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Flags {
    database_url: bool,
    data_dir: bool,
    ephemeral: bool,
}

impl StorageChoice {
    /// Notes which settings were given on the command line.
    pub(super) fn note_sources(&mut self, matches: &ArgMatches) {
        let is_flag = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        self.flags = Flags {
            database_url: is_flag("database_url"),
            data_dir: is_flag("data_dir"),
            ephemeral: is_flag("ephemeral"),
        };
    }

    /// Takes the setting nearest to the user. `database_url` is the environment's `DATABASE_URL`.
    pub(super) fn decide(self, database_url: Option<String>) -> Result<Storage, String> {
        let flags = &self.flags;
        let named =
            |is_flag, flag, variable| if is_flag { (Rank::Flag, flag) } else { (Rank::Variable, variable) };
        let mut given = Vec::new();
        if let Some(url) = self.database_url {
            let (rank, name) = named(flags.database_url, "--database-url", "KUKOPAY_DATABASE_URL");
            given.push((rank, name, Storage::Server(ServerUrl::new(url, name))));
        }
        if let Some(directory) = self.data_dir {
            let (rank, name) = named(flags.data_dir, "--data-dir", "KUKOPAY_DATA_DIR");
            given.push((rank, name, Storage::Directory(directory)));
        }
        if self.ephemeral {
            let (rank, name) = named(flags.ephemeral, "--ephemeral", "KUKOPAY_EPHEMERAL");
            given.push((rank, name, Storage::Ephemeral));
        }
        for rank in [Rank::Flag, Rank::Variable] {
            let mut of_rank = given.extract_if(.., |(its, ..)| *its == rank);
            match (of_rank.next(), of_rank.next()) {
                (Some((_, one, _)), Some((_, other, _))) => {
                    return Err(format!("{one} and {other} exclude each other; leave one out"));
                }
                (Some((.., storage)), None) => return Ok(storage),
                (None, _) => {}
            }
        }
        match database_url.filter(|url| !url.is_empty()) {
            Some(url) => Ok(Storage::Server(ServerUrl::new(url, "DATABASE_URL"))),
            None => default_directory(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Flag,
    Variable,
}

fn default_directory() -> Result<Storage, String> {
    ProjectDirs::from("", "", "kukopay-sandbox")
        .map(|dirs| Storage::Directory(dirs.data_dir().to_path_buf()))
        .ok_or_else(|| {
            "there is no data directory for this user (HOME is not set); name one with --data-dir, or keep \
             nothing with --ephemeral"
                .to_owned()
        })
}
