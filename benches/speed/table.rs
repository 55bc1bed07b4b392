//! The table that is printed: what was measured, what is wanted, and whether it was reached. Knows nothing of
//! how things are measured.

use std::fmt;

/// What a figure has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// This, or more.
    AtLeast(f64),
    /// This, or less.
    AtMost(f64),
    /// Nothing: the figure is there to be read.
    None,
}

/// In what a figure is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// A number without a unit.
    Ratio,
    /// Things in a second.
    PerSecond,
    /// Thousandths of a second.
    Milliseconds,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: Unit,
    target: Target,
    figure: f64,
    note: String,
}

/// Facts and rows, in the order in which they came. Prints itself as Markdown.
#[derive(Debug, Default)]
pub(crate) struct Table {
    facts: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    /// Adds a sentence that belongs to the table, and prints it at once.
    pub(crate) fn fact(&mut self, fact: impl Into<String>) {
        let fact = fact.into();
        println!("{fact}");
        self.facts.push(fact);
    }

    /// Adds a row. The note says what the figure was made of.
    pub(crate) fn row(
        &mut self,
        name: &str,
        unit: Unit,
        target: Target,
        figure: f64,
        note: impl Into<String>,
    ) {
        let row = Row { name: name.to_owned(), unit, target, figure, note: note.into() };
        println!("{row}");
        self.rows.push(row);
    }
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Ratio => format!("{figure:.2}"),
            Self::PerSecond => format!("{figure:.0}/s"),
            Self::Milliseconds if figure < 10.0 => format!("{figure:.2} ms"),
            Self::Milliseconds => format!("{figure:.0} ms"),
        }
    }
}

impl Target {
    fn show(self, unit: Unit) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {}", unit.show(least)),
            Self::AtMost(most) => format!("≤ {}", unit.show(most)),
            Self::None => String::new(),
        }
    }

    fn verdict(self, figure: f64) -> &'static str {
        match self {
            Self::None => "",
            Self::AtLeast(least) if figure >= least => "reached",
            Self::AtMost(most) if figure <= most => "reached",
            Self::AtLeast(_) | Self::AtMost(_) => "**short**",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, figure) = (self.target.show(self.unit), self.unit.show(self.figure));
        let verdict = self.target.verdict(self.figure);
        write!(f, "| {} | {target} | {figure} | {verdict} | {} |", self.name, self.note)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fact in &self.facts {
            writeln!(f, "{fact}")?;
        }
        writeln!(f, "\n| figure | target | measured | | made of |\n|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        Ok(())
    }
}

/// The middle one of some figures; of an even number, the mean of the two in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match (figures.len() / 2, figures.len() % 2) {
        (0, 0) => f64::NAN,
        (middle, 1) => figures[middle],
        (middle, _) => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}
