//! The PostgreSQL that everything is measured on: a cluster of its own, made and removed here, or the server that
//! `DATABASE_URL` names. It keeps its defaults; above all it waits for the disk. What happens on it stands elsewhere.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tempfile::TempDir;

use crate::Outcome;

/// A PostgreSQL with databases for what is measured.
#[derive(Debug)]
pub(crate) struct Server {
    /// Without a database.
    url: url::Url,
    /// The folder of `pgbench` and its kind.
    pub(crate) programs: PathBuf,
    cluster: Option<Cluster>,
}

/// One that was started here; it stops when it goes out of scope.
#[derive(Debug)]
struct Cluster {
    programs: PathBuf,
    folder: TempDir,
    /// The user that runs it where this program is run by root, which PostgreSQL refuses.
    user: Option<String>,
}

/// The names of the databases that are made here begin so.
const PREFIX: &str = "kukopay_speed";

impl Server {
    /// Starts one, or takes that of `DATABASE_URL`.
    pub(crate) async fn start() -> Outcome<Self> {
        let programs = programs()?;
        let given = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
        let (url, cluster) = if let Some(url) = given {
            (url, None)
        } else {
            let port = free_port()?;
            let cluster = Cluster::start(&programs, port)?;
            (format!("postgres://speed@127.0.0.1:{port}/postgres"), Some(cluster))
        };
        let server = Self { url: url::Url::parse(&url)?, programs, cluster };
        server.connect().await?.close().await?;
        Ok(server)
    }

    /// A connection to the database of the URL.
    pub(crate) async fn connect(&self) -> Outcome<PgConnection> {
        Ok(PgConnection::connect(self.url.as_str()).await?)
    }

    /// Makes an empty database and returns its URL.
    pub(crate) async fn database(&self, name: &str) -> Outcome<String> {
        let name = format!("{PREFIX}_{name}");
        let mut conn = self.connect().await?;
        conn.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))).await?;
        conn.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        let mut url = self.url.clone();
        url.set_path(&name);
        Ok(url.to_string())
    }

    /// The process whose children serve the connections, if it is one of this machine that was started here.
    pub(crate) fn process(&self) -> Option<u32> {
        let file = self.cluster.as_ref()?.data().join("postmaster.pid");
        fs::read_to_string(file).ok()?.lines().next()?.trim().parse().ok()
    }

    /// Where its data is; unknown of one that was not started here.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.cluster.as_ref().map(|cluster| cluster.folder.path())
    }

    /// Removes what was made.
    pub(crate) async fn close(self) -> Outcome<()> {
        if self.cluster.is_none() {
            let mut conn = self.connect().await?;
            let names: Vec<String> =
                sqlx::query_scalar("SELECT datname FROM pg_database WHERE datname ^@ $1")
                    .bind(PREFIX)
                    .fetch_all(&mut conn)
                    .await?;
            for name in names {
                conn.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await?;
            }
        }
        Ok(())
    }
}

/// The folder of the newest PostgreSQL: where Debian has them, else where `initdb` is found.
fn programs() -> Outcome<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    let version = |bin: &PathBuf| {
        let name = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse::<u32>().ok())
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).find(|folder| folder.join("initdb").exists());
    let found = debian.max_by_key(version).or_else(on_path);
    Ok(found.ok_or("no initdb: install the PostgreSQL server")?)
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl Cluster {
    fn start(programs: &Path, port: u16) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("kukopay-speed.").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let is_root = fs::metadata(folder.path())?.uid() == 0;
        let user = is_root.then(unprivileged).transpose()?;
        let cluster = Self { programs: programs.to_owned(), folder, user };
        fs::create_dir(cluster.data())?;
        fs::set_permissions(cluster.data(), fs::Permissions::from_mode(0o700))?;
        if let Some(user) = &cluster.user {
            let id = output(Command::new("id").args(["-u", user]))?.trim().parse()?;
            chown(cluster.folder.path(), Some(id), None)?;
            chown(cluster.data(), Some(id), None)?;
        }
        let mut initdb = cluster.command("initdb");
        initdb.args(["--username=speed", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        output(&mut initdb)?;
        let log = cluster.folder.path().join("log");
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={} -c max_connections=200",
            cluster.folder.path().display()
        );
        let mut start = cluster.command("pg_ctl");
        start.arg("--log").arg(&log).args(["--wait", "--timeout=30", "--options", &options, "start"]);
        // Not read to its end, as the server keeps it.
        if !start.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
            return Err(fs::read_to_string(log).unwrap_or_else(|_| "pg_ctl did not start".to_owned()).into());
        }
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// One of PostgreSQL's programs, on the data of this cluster.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match &self.user {
            None => Command::new(program),
            Some(user) => {
                let mut runuser = Command::new("runuser");
                runuser.args(["-u", user, "--"]).arg(program);
                runuser
            }
        };
        command.arg("--pgdata").arg(self.data()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        stop.args(["--mode=immediate", "--wait", "--timeout=20", "stop"]);
        let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn unprivileged() -> Outcome<String> {
    let mut users = ["postgres", "nobody"].into_iter();
    let is_there = |user: &&str| output(Command::new("id").args(["-u", user])).is_ok();
    Ok(users.find(is_there).ok_or("PostgreSQL does not run as root, and there is no other user")?.to_owned())
}

/// What a command prints; an error with all that it printed, where it fails.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{command:?}: {}\n{error}", output.status).into())
}
