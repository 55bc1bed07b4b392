//! The subcommands `sign` and `verify-signature`, over the bytes of standard input.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::support::process::command;

const BODY: &[u8] = "{\"subject\":\"Pro 年度訂閲 🎉\"}".as_bytes();

fn run(arguments: &[&str], body: &[u8]) -> Output {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that ends before it reads closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(body);
    child.wait_with_output().unwrap()
}

fn verify(header: &str, more: &[&str], body: &[u8]) -> (bool, String) {
    let arguments = [&["verify-signature", "--secret", "whsec_a", "--header", header], more].concat();
    let output = run(&arguments, body);
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn what_sign_prints_verifies_with_and_without_its_name() {
    let output = run(&["sign", "--secret", "whsec_a"], BODY);
    let header = String::from_utf8(output.stdout).unwrap();
    assert!(header.starts_with("X-KukoPay-Signature: t="), "{header}");
    for header in [header.trim_end(), header["X-KukoPay-Signature: ".len()..].trim_end()] {
        assert!(verify(header, &[], BODY).0);
    }
}

#[test]
fn the_secret_may_come_from_the_environment_and_is_never_shown() {
    for arguments in [&["sign"][..], &["sign", "--help"], &["verify-signature", "--header", "t=1,v1=00"]] {
        let output = command(arguments).env("KUKOPAY_WEBHOOK_SECRET", "whsec_a").output().unwrap();
        assert_ne!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!text.contains("whsec_a"), "{text}");
    }
}

#[test]
fn the_exit_code_tells_what_is_not_valid_from_what_is_not_understood() {
    let code = |arguments: &[&str]| run(arguments, BODY).status.code();
    assert_eq!(code(&["verify-signature", "--secret", "a", "--header", "t=1,v1=00"]), Some(1));
    assert_eq!(code(&["verify-signature", "--header", "t=1,v1=00"]), Some(2));
    assert_eq!(code(&["verify-signature", "--secret", "a"]), Some(2));
    assert_eq!(code(&["sign", "--secret", "a", "--timestamp", "now"]), Some(2));
}

#[test]
fn the_time_can_be_chosen() {
    let output = run(&["sign", "--secret", "whsec_test", "--timestamp", "1764553200"], b"{}");
    let header = "X-KukoPay-Signature: t=1764553200,\
                  v1=834560b3698346260df34041e156b474dd00607d792fe367decedea981872ba8\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), header);
}

#[test]
fn what_does_not_fit_is_explained() {
    let header = kukopay_sandbox::domain::webhook::signature::header(&["whsec_a"], 1_764_553_200, BODY);
    let at = ["--now", "1764553500"];
    assert!(verify(&header, &at, BODY).0);
    for (header, more, body, why) in [
        (header.as_str(), ["--now", "1764553501"], BODY.to_vec(), "301 seconds old"),
        (&header, at, [BODY, b"\n"].concat(), "without the line break"),
        (&header, at, [b"{ ", &BODY[1..]].concat(), "parsed and written again"),
        (&header, at, b"{}".to_vec(), "another secret, or over other bytes"),
        (&header, ["--now", "1764552800"], BODY.to_vec(), "400 seconds ahead"),
        (&header.replace("t=", "t=about "), at, BODY.to_vec(), "not a number"),
        ("v1=00", at, BODY.to_vec(), "no timestamp"),
        ("t=1764553200", at, BODY.to_vec(), "no signature"),
    ] {
        let (valid, text) = verify(header, &more, &body);
        assert!(!valid && text.contains(why), "{text}");
        assert!(!text.contains("whsec_a"), "{text}");
    }
}
