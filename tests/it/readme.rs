//! README.md tells the truth: its curl calls are run as they stand and get the answers shown, its tables
//! and its map name what there is. A block of `sh` that a block of `http` follows is a call and its answer.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::support::Merchant;
use crate::support::process::command;

const README: &str = include_str!("../../README.md");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// How long the prefix of an id is, and how many hex digits follow.
const PREFIX: usize = "req_".len();
const ID_DIGITS: usize = 32;

/// The fenced blocks: language and text.
pub(crate) fn blocks() -> Vec<(&'static str, String)> {
    let mut blocks = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language, text.join("\n")));
        }
    }
    blocks
}

/// The calls of README.md, each with the answer shown, if one is.
fn calls() -> Vec<(String, Option<String>)> {
    let blocks = blocks();
    let is_call = |block: &(&str, String)| {
        block.0 == "sh" && block.1.contains("curl ") && block.1.contains("http://127.0.0.1:5856")
    };
    let pairs = blocks.windows(2).filter(|pair| is_call(&pair[0]));
    pairs.map(|pair| (pair[0].1.clone(), (pair[1].0 == "http").then(|| pair[1].1.clone()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_gets_the_answer_shown() {
    let merchant = Merchant::new();
    let here = |text: &str| {
        text.replace("http://127.0.0.1:5856", &merchant.base_url)
            .replace("kuko_test_local_000001", &merchant.api_key)
    };
    let mut ids = Ids::default();
    let calls = calls();
    let shown = calls.iter().filter(|(_, shown)| shown.is_some()).count();
    assert_eq!(shown, blocks().iter().filter(|(language, _)| *language == "http").count());
    for (call, shown) in calls {
        let mut bash = tokio::process::Command::new("bash");
        let output = bash.args(["-ec", &here(&call)]).current_dir(ROOT).output().await.expect("bash runs");
        let answer = String::from_utf8(output.stdout).unwrap().replace('\r', "");
        if let Some(shown) = shown
            && let Err(error) = ids.compare(&here(&shown), &answer)
        {
            panic!("{error}\n{call}\ngot the answer\n{answer}");
        }
    }
}

/// A command that asks no sandbox, and what it prints: a block of `sh`, and one of `text` behind it.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_prints_what_is_shown() {
    let blocks = blocks();
    let pairs = blocks.windows(2).filter(|pair| pair[0].0 == "sh" && pair[1].0 == "text");
    let pairs: Vec<_> = pairs.filter(|pair| !pair[0].1.contains("http://")).collect();
    assert!(!pairs.is_empty());
    for pair in pairs {
        let call = pair[0].1.replace("kukopay-sandbox", env!("CARGO_BIN_EXE_kukopay-sandbox"));
        let output = tokio::process::Command::new("bash").args(["-ec", &call]).output().await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), pair[1].1, "{call}");
    }
}

#[test]
fn receivers_stand_there_as_they_are_tested() {
    let blocks = blocks();
    for (language, file) in [("js", "receiver.mjs"), ("python", "receiver.py")] {
        let source = std::fs::read_to_string(Path::new(ROOT).join("fixtures/receivers").join(file)).unwrap();
        assert!(blocks.iter().any(|block| block.0 == language && block.1 == source.trim_end()), "{file}");
    }
}

/// The ids in the answers by their shortened form in README.md.
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

fn names_in(directory: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(directory)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every file below a directory, by its path in the repository.
fn files_below(directory: &str) -> BTreeSet<String> {
    let paths = names_in(directory).into_iter().map(|name| format!("{directory}/{name}"));
    paths
        .flat_map(|path| {
            let is_directory = Path::new(ROOT).join(&path).is_dir();
            if is_directory { files_below(&path) } else { BTreeSet::from([path]) }
        })
        .collect()
}

#[test]
fn every_fixture_is_used() {
    for file in files_below("fixtures") {
        assert!(README.contains(&file), "{file} is not named");
    }
}

#[test]
fn every_setting_is_in_the_table() {
    let help = command(&["serve", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let settings: Vec<_> = help.split("\n      --").skip(1).collect();
    assert!(settings.len() >= 10);
    for setting in settings {
        let flag = setting.split_whitespace().next().unwrap();
        let row = README.lines().find(|line| line.starts_with(&format!("| `--{flag}` |")));
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

#[test]
fn every_module_is_on_the_map() {
    let blocks = blocks();
    let (_, map) = blocks.iter().find(|(_, text)| text.starts_with("src/main.rs")).expect("a map");
    let mapped: Vec<_> = map.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for path in &mapped {
        assert!(Path::new(ROOT).join(path).exists(), "{path} is on the map only");
    }
    for name in names_in("src") {
        let path = format!("src/{name}");
        assert!(mapped.iter().any(|mapped| mapped.trim_end_matches('/') == path), "{path} is not on the map");
    }
}
