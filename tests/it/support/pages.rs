//! The files of the repository, and its documentation: README.md and the pages of docs/, as a reader of Markdown
//! sees them.

use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A page by its path in the repository.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Every page, README.md first.
pub(crate) fn all() -> Vec<Page> {
    let docs = names_in("docs").into_iter().map(|name| format!("docs/{name}"));
    let mut docs: Vec<_> =
        docs.filter(|path| Path::new(path).extension().is_some_and(|its| its == "md")).collect();
    docs.sort_unstable();
    std::iter::once("README.md".to_owned()).chain(docs).map(|path| Page::read(&path)).collect()
}

/// The blocks of every page.
pub(crate) fn blocks() -> Vec<Block> {
    all().iter().flat_map(Page::blocks).collect()
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        Self { path: path.to_owned(), text: read(path) }
    }

    fn parse(&self) -> Parser<'_> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES)
    }

    /// The fenced blocks.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_inside = false;
        for event in self.parse() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    is_inside = true;
                    blocks.push(Block { language: language.to_string(), text: String::new() });
                }
                Event::Text(text) if is_inside => blocks.last_mut().unwrap().text += &text,
                Event::End(TagEnd::CodeBlock) => is_inside = false,
                _ => {}
            }
        }
        for block in &mut blocks {
            block.text.truncate(block.text.trim_end().len());
        }
        blocks
    }

    /// Where the links and images lead.
    pub(crate) fn links(&self) -> Vec<String> {
        let links = self.parse().filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
            _ => None,
        });
        links.map(|link| link.to_string()).collect()
    }

    /// The pieces of code in the text.
    pub(crate) fn code_spans(&self) -> Vec<String> {
        let spans = self.parse().filter_map(|event| match event {
            Event::Code(code) => Some(code.to_string()),
            _ => None,
        });
        spans.collect()
    }

    /// The anchors of the headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        let mut heading: Option<String> = None;
        for event in self.parse() {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::Text(text) | Event::Code(text), Some(heading)) => *heading += &text,
                (Event::End(TagEnd::Heading(_)), _) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    assert!(!anchors.contains(&anchor), "{} has two headings #{anchor}", self.path);
                    anchors.push(anchor);
                }
                _ => {}
            }
        }
        anchors
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|char| if char == ' ' { '-' } else { char }).collect()
}

/// The text of a file, by its path in the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names in a directory of the repository.
pub(crate) fn names_in(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(directory)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every file below a directory, by its path in the repository.
pub(crate) fn files_below(directory: &str) -> Vec<String> {
    let paths = names_in(directory).into_iter().map(|name| format!("{directory}/{name}"));
    paths
        .flat_map(|path| {
            let is_directory = Path::new(ROOT).join(&path).is_dir();
            if is_directory { files_below(&path) } else { vec![path] }
        })
        .collect()
}
