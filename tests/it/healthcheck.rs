//! `kukopay-sandbox healthcheck`, the health check of a container.

use crate::support::process::{command, free_port};
use crate::support::server;

/// The exit status of the check with the settings that a container has.
fn exit_status(port: u16) -> Option<i32> {
    let mut check = command(&["healthcheck"]);
    check.env("KUKOPAY_HOST", "0.0.0.0").env("KUKOPAY_PORT", port.to_string());
    check.output().expect("the command ends").status.code()
}

#[test]
fn tells_a_ready_sandbox_from_none() {
    let (_, port) = server::base_url().rsplit_once(':').unwrap();
    assert_eq!(exit_status(port.parse().unwrap()), Some(0));
    assert_eq!(exit_status(free_port()), Some(1));
}
