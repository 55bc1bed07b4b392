//! `kukopay-sandbox healthcheck`: asks a running sandbox whether it is ready, so that a container image
//! needs no other program for its health check. One request over a plain socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Address;
use crate::app;

/// How long each step may take. The sandbox itself waits up to 5 s for a database that is away.
const TIMEOUT: Duration = Duration::from_secs(6);

/// Asks `GET /readyz`.
///
/// # Errors
/// Nobody listens there, or the sandbox says that it is not ready.
pub(super) fn check(address: &Address) -> Result<(), String> {
    let address = app::reachable(SocketAddr::new(address.host, address.port));
    let status = status_line(address).map_err(|error| format!("no answer from {address}: {error}"))?;
    if status.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(format!("not ready: {status}")) }
}

fn status_line(address: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    write!(socket, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}
