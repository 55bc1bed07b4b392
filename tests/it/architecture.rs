//! docs/architecture.md and docs/api.md tell the truth about the code: what they name is there, every module is
//! on the map, every route in the contract, and imports run one way.

use std::collections::BTreeSet;
use std::path::Path;

use kukopay_sandbox::domain::audit;

use crate::support::pages::{self, Page, ROOT, files_below, names_in, read};
use crate::support::routes::{self, Route};

/// The rooms of the house, each with those that it may use besides itself.
const ROOMS: [(&str, &[&str]); 5] = [
    ("domain", &[]),
    ("db", &["domain"]),
    ("service", &["domain", "db"]),
    ("http", &["domain", "db", "service"]),
    ("worker", &["domain", "db", "service"]),
];

/// What stands behind each `start` in a text, up to a character that no name has.
fn names_after<'t>(text: &'t str, start: &'t str) -> impl Iterator<Item = &'t str> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    text.split(start).skip(1).map(move |rest| rest.split(|char| !is_name(char)).next().unwrap_or_default())
}

#[test]
fn imports_run_one_way() {
    for (room, others) in ROOMS {
        for path in files_below(&format!("src/{room}")) {
            for used in names_after(&read(&path), "crate::") {
                assert!(used == room || others.contains(&used), "{path} uses crate::{used}");
            }
        }
    }
}

/// A connection in the head of a loop or a match is held to its end, where somebody might acquire another one.
#[test]
fn no_head_of_a_block_holds_a_connection() {
    for path in files_below("src") {
        for before_block in read(&path).split('{') {
            let head = before_block.rsplit([';', '}']).next().unwrap_or_default().trim();
            let is_condition = head.starts_with("if ") && !head.starts_with("if let ");
            assert!(is_condition || !head.contains(".acquire()"), "{path}: {head}");
        }
    }
}

#[test]
fn every_module_is_on_the_map() {
    let blocks = Page::read("docs/architecture.md").blocks();
    let map = blocks.iter().find(|block| block.text.starts_with("src/main.rs")).expect("a map");
    let lines = map.text.lines().filter(|line| !line.starts_with(' '));
    let mapped: Vec<_> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    for path in &mapped {
        assert!(Path::new(ROOT).join(path).exists(), "{path} is on the map only");
    }
    for name in names_in("src") {
        let path = format!("src/{name}");
        assert!(mapped.iter().any(|mapped| mapped.trim_end_matches('/') == path), "{path} is not on the map");
    }
}

#[test]
fn every_path_that_is_named_exists() {
    let folders = ["src/", "tests/", "benches/", "migrations/", "templates/", "fixtures/", ".ci/"];
    for page in pages::all() {
        for path in page.code_spans() {
            if folders.iter().any(|folder| path.starts_with(folder)) {
                assert!(Path::new(ROOT).join(&path).exists(), "{} names {path}", page.path);
            }
        }
    }
}

/// A test is named by its module and its function.
#[test]
fn every_test_that_is_named_exists() {
    let spans = Page::read("docs/architecture.md").code_spans();
    let named: Vec<_> = spans.iter().filter_map(|span| span.split_once("::")).collect();
    assert!(named.len() > 20);
    let sources = [files_below("src"), files_below("tests/it")].concat();
    for (module, test) in named {
        let holds = |path: &String| {
            let is_module = path.ends_with(&format!("/{module}.rs")) || module == "tests";
            is_module && read(path).contains(&format!("fn {test}("))
        };
        assert!(sources.iter().any(holds), "there is no test {module}::{test}");
    }
}

#[test]
fn every_route_is_in_the_contract() {
    let contract = Page::read("docs/api.md").text;
    // The pages that `checkout_url` leads to are not called by clients.
    for Route { path, .. } in routes::all().iter().filter(|route| !route.is_page()) {
        let is_there = [" ", "`"].iter().any(|end| contract.contains(&format!("{path}{end}")));
        assert!(is_there, "{path} is not in docs/api.md");
    }
}

/// So that no endpoint that moves money is added behind the audit's back.
#[test]
fn the_audit_knows_every_endpoint_under_v1() {
    let known = audit::endpoints().map(|(method, path)| format!("{method} {path}")).collect::<BTreeSet<_>>();
    let routes = routes::all().into_iter().filter(|route| route.path.starts_with("/v1/"));
    let served = routes.flat_map(|Route { path, methods }| {
        methods.into_iter().map(move |method| format!("{method} {path}"))
    });
    assert_eq!(known, served.collect::<BTreeSet<_>>());
}
