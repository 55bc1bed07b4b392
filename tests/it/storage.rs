//! Where the data lives: which of the settings counts, and how it is named.

use crate::support::process::{NOWHERE, command, expect_failure};

#[tokio::test]
async fn variables_that_contradict_each_other_are_named() {
    let cases = [
        (
            [("KUKOPAY_DATABASE_URL", NOWHERE), ("KUKOPAY_EPHEMERAL", "1")],
            "KUKOPAY_DATABASE_URL and KUKOPAY_EPHEMERAL",
        ),
        (
            [("KUKOPAY_DATABASE_URL", NOWHERE), ("KUKOPAY_DATA_DIR", "x")],
            "KUKOPAY_DATABASE_URL and KUKOPAY_DATA_DIR",
        ),
        ([("KUKOPAY_DATA_DIR", "x"), ("KUKOPAY_EPHEMERAL", "yes")], "KUKOPAY_DATA_DIR and KUKOPAY_EPHEMERAL"),
    ];
    for (variables, expected) in cases {
        let mut command = command(&["--port", "0"]);
        command.envs(variables).env("DATABASE_URL", NOWHERE);
        let message = expect_failure(command).await;
        assert!(message.contains(&format!("{expected} exclude each other")), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[tokio::test]
async fn a_message_names_the_setting_that_was_read() {
    let broken = "mysql://a:s3cret-w0rd@b/c";
    for (variables, flag, read) in [
        (&[("DATABASE_URL", broken)][..], None, "DATABASE_URL"),
        (&[("KUKOPAY_DATABASE_URL", broken), ("DATABASE_URL", NOWHERE)], None, "KUKOPAY_DATABASE_URL"),
        (&[("KUKOPAY_DATABASE_URL", NOWHERE), ("KUKOPAY_EPHEMERAL", "1")], Some(broken), "--database-url"),
        (
            &[
                ("KUKOPAY_DATABASE_URL", ""),
                ("KUKOPAY_DATA_DIR", ""),
                ("KUKOPAY_EPHEMERAL", ""),
                ("DATABASE_URL", broken),
            ],
            None,
            "DATABASE_URL",
        ),
    ] {
        let mut command = command(&["--port", "0"]);
        command.envs(variables.iter().copied());
        if let Some(url) = flag {
            command.args(["--database-url", url]);
        }
        let message = expect_failure(command).await;
        let expected = format!("the database URL in {read} is not of the form postgres://");
        assert!(message.contains(&expected) && !message.contains("s3cret"), "{expected} in {message}");
    }
}
