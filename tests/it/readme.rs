//! The documentation tells the truth: its commands are run as they stand and print what is shown, its table
//! names every setting, and its links lead somewhere. What it says about the code is in `architecture`. A
//! block of `sh` is a command; a block of `http` or `text` right behind it is what it prints.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use futures_util::future::join_all;

use crate::support::Merchant;
use crate::support::pages::{self, Block, Page, ROOT, files_below};
use crate::support::process::command;

/// How long the prefix of an id is, and how many hex digits follow.
const PREFIX: usize = "req_".len();
const ID_DIGITS: usize = 32;

/// What stands in commands that are not run here, and why they are not.
const NOT_RUN: [(&str, &str); 5] = [
    ("cargo run --release", "builds and runs the sandbox, as all of this suite does"),
    ("cargo install --path .", "builds the command that this suite runs"),
    ("cargo test --lib", "runs this suite"),
    ("fixtures/receivers/", "the receivers are run by the tests in `receivers`"),
    ("$(kukopay-sandbox sign", "sent to the receivers by the tests in `receivers`"),
];

/// Runs each page from its top, as a merchant of its own.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_prints_what_is_shown() {
    join_all(pages::all().iter().map(run)).await;
}

async fn run(page: &Page) {
    let merchant = Merchant::new();
    let here = |text: &str| {
        text.replace("http://127.0.0.1:5856", &merchant.base_url)
            .replace("kuko_test_local_000001", &merchant.api_key)
    };
    let mut ids = Ids::default();
    for (command, shown) in commands(page) {
        if NOT_RUN.iter().any(|(part, _)| command.contains(part)) {
            continue;
        }
        let output = bash(&here(&command), &merchant).await;
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let result = match &shown {
            Some(shown) if shown.language == "http" => ids.compare(&here(&shown.text), &stdout),
            Some(shown) => ids.is(&shown.text, (stdout.clone() + &stderr).trim_end()),
            None => output.status.success().then_some(()).ok_or_else(|| output.status.to_string()),
        };
        if let Err(error) = result {
            panic!("{}: {error}\n{command}\nprinted\n{stdout}{stderr}", page.path);
        }
    }
}

/// The commands of a page, each with what it prints, if that is shown.
fn commands(page: &Page) -> Vec<(String, Option<Block>)> {
    let mut blocks = page.blocks().into_iter().peekable();
    let mut commands = Vec::new();
    while let Some(block) = blocks.next() {
        if block.language == "sh" {
            let shown = blocks.next_if(|next| matches!(next.language.as_str(), "http" | "text"));
            commands.push((block.text, shown));
        } else {
            assert_ne!(block.language, "http", "{} shows an answer to no call:\n{}", page.path, block.text);
        }
    }
    commands
}

/// Runs a command in the repository, with the sandbox's own command on its path.
async fn bash(command: &str, merchant: &Merchant) -> Output {
    let binaries = Path::new(env!("CARGO_BIN_EXE_kukopay-sandbox")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(PathBuf::from(binaries)).chain(std::env::split_paths(&path));
    let mut bash = tokio::process::Command::new("bash");
    bash.args(["-ec", command]).current_dir(ROOT).env("PATH", std::env::join_paths(path).unwrap());
    bash.env("KUKOPAY_URL", &merchant.base_url).output().await.expect("bash runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text").replace('\r', "")
}

#[test]
fn receivers_stand_there_as_they_are_tested() {
    let blocks = pages::blocks();
    for (language, file) in [("js", "receiver.mjs"), ("python", "receiver.py")] {
        let source = std::fs::read_to_string(Path::new(ROOT).join("fixtures/receivers").join(file)).unwrap();
        let is_shown = |block: &Block| block.language == language && block.text == source.trim_end();
        assert!(blocks.iter().any(is_shown), "{file}");
    }
}

/// Every link inside the repository leads to a file that is there, and to a heading where it names one.
#[test]
fn every_link_leads_somewhere() {
    for page in pages::all() {
        let directory = Path::new(&page.path).parent().unwrap();
        for link in page.links().iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.path.clone() } else { joined(directory, file) };
            assert!(Path::new(ROOT).join(&target).exists(), "{}: no file {link}", page.path);
            let is_there = anchor.is_empty() || Page::read(&target).anchors().iter().any(|its| its == anchor);
            assert!(is_there, "{}: no heading {link}", page.path);
        }
    }
}

/// A path from a directory of the repository, without its `..`.
fn joined(directory: &Path, file: &str) -> String {
    let mut path = PathBuf::new();
    for part in directory.join(file).components() {
        if part.as_os_str() == ".." {
            assert!(path.pop(), "{file} leads out of the repository");
        } else {
            path.push(part);
        }
    }
    path.into_os_string().into_string().unwrap()
}

#[test]
fn every_page_is_in_the_list_of_contents() {
    let contents = Page::read("docs/README.md").links();
    for page in pages::all() {
        if let Some(name) = page.path.strip_prefix("docs/")
            && name != "README.md"
        {
            assert!(contents.iter().any(|link| link == name), "{name} is not in docs/README.md");
        }
    }
}

/// The ids in the answers by their shortened form on a page.
#[derive(Default)]
struct Ids(HashMap<String, String>);

impl Ids {
    /// Compares an answer with what is shown of it: the status line, some headers, and the body, which
    /// may stand on several lines.
    fn compare(&mut self, shown: &str, answer: &str) -> Result<(), String> {
        let (shown_head, shown_body) = shown.split_once("\n\n").ok_or("no body is shown")?;
        let (head, body) = answer.split_once("\n\n").ok_or("no body was sent")?;
        if shown_head.lines().next() != head.lines().next() {
            return Err(format!("not {:?}", shown_head.lines().next()));
        }
        for shown in shown_head.lines() {
            let found = head.lines().any(|line| self.is(shown, line).is_ok());
            found.then_some(()).ok_or_else(|| format!("no header {shown}"))?;
        }
        let shown_body: String = shown_body.lines().map(str::trim_start).collect();
        self.is(&shown_body, body)
    }

    /// Compares a text with what is shown of it, where an ellipsis stands for anything; behind the first
    /// digits of an id, for the rest of that id.
    fn is(&mut self, shown: &str, text: &str) -> Result<(), String> {
        let pieces: Vec<_> = shown.split('…').collect();
        let (mut rest, mut gap) = (text, false);
        for (place, piece) in pieces.iter().enumerate() {
            let is_last = place + 1 == pieces.len();
            let (literal, id) = if is_last { (*piece, None) } else { split_id(piece) };
            let at = match (gap, is_last) {
                (false, _) => rest.starts_with(literal).then_some(0),
                (true, false) => rest.find(literal),
                (true, true) => rest.ends_with(literal).then(|| rest.len() - literal.len()),
            };
            let at = at.ok_or_else(|| format!("no {literal}"))?;
            rest = &rest[at + literal.len()..];
            if let Some(id) = id {
                let (full, behind) = rest.split_at_checked(ID_DIGITS).ok_or("a short id")?;
                self.is_same(id, full)?;
                rest = behind;
            }
            gap = id.is_none();
        }
        if rest.is_empty() { Ok(()) } else { Err(format!("more than shown: {rest}")) }
    }

    /// Ids that begin alike are the same, and others differ.
    fn is_same(&mut self, shown: &str, full: &str) -> Result<(), String> {
        match self.0.get(shown) {
            Some(known) if known == full => Ok(()),
            Some(known) => Err(format!("{shown} was {known} and is {full}")),
            None if self.0.values().any(|known| known == full) => {
                Err(format!("{shown} is {full}, which is shown by another name"))
            }
            None => {
                self.0.insert(shown.to_owned(), full.to_owned());
                Ok(())
            }
        }
    }
}

/// Splits a text that ends with the beginning of an id before the id.
fn split_id(piece: &str) -> (&str, Option<&str>) {
    let starts = ["req_", "trd_", "rfd_", "flt_", "evt_"].iter().filter_map(|prefix| piece.rfind(prefix));
    let split = starts.max().map(|start| piece.split_at(start));
    let is_id = |id: &str| id.len() > PREFIX && id[PREFIX..].bytes().all(|byte| byte.is_ascii_hexdigit());
    match split {
        Some((before, id)) if is_id(id) => (&piece[..before.len() + PREFIX], Some(id)),
        _ => (piece, None),
    }
}

#[test]
fn the_comparison_sees_what_differs() {
    let id = |digit: &str| format!("req_{}", digit.repeat(ID_DIGITS));
    let (one, two) = (id("1"), id("2"));
    let mut ids = Ids::default();
    assert_eq!(ids.is("a: req_11…, … c", &format!("a: {one}, b c")), Ok(()));
    assert_eq!(ids.is("req_11…", &one), Ok(()));
    assert!(ids.is("req_11…", &two).is_err());
    assert!(ids.is("req_22…", &one).is_err());
    assert!(ids.is("req_11…", &format!("{one} and more")).is_err());
    assert!(ids.is("a…d", "a b c").is_err());
    assert!(ids.compare("HTTP/1.1 200 OK\n\n{}", "HTTP/1.1 201 Created\n\n{}").is_err());
    assert!(ids.compare("HTTP/1.1 200 OK\na: b\n\n{}", "HTTP/1.1 200 OK\n\n{}").is_err());
    assert!(ids.compare("HTTP/1.1 200 OK\n\n{\"a\":…}", "HTTP/1.1 200 OK\n\n{\"b\":1}").is_err());
}

#[test]
fn every_fixture_is_used() {
    let pages = pages::all();
    for file in files_below("fixtures") {
        assert!(pages.iter().any(|page| page.text.contains(&file)), "{file} is not named");
    }
}

#[test]
fn every_setting_is_in_the_table() {
    let readme = Page::read("README.md").text;
    let help = command(&["serve", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let settings: Vec<_> = help.split("\n      --").skip(1).collect();
    assert!(settings.len() >= 10);
    for setting in settings {
        let flag = setting.split_whitespace().next().unwrap();
        let row = readme.lines().find(|line| line.starts_with(&format!("| `--{flag}` |")));
        let row = row.unwrap_or_else(|| panic!("--{flag} is not in the table"));
        let value = |name: &str| {
            let line = setting.lines().find_map(|line| line.trim().strip_prefix(name));
            line.map(|line| line.trim_start().trim_end_matches(']').trim_end_matches('='))
        };
        let variable = value("[env:").unwrap_or_else(|| panic!("--{flag} has no variable"));
        let shown = [Some(variable), value("[default:")].into_iter().flatten();
        for shown in shown.map(|shown| format!("`{shown}`")) {
            assert!(row.contains(&shown), "{shown} is not in the row of --{flag}");
        }
    }
}
