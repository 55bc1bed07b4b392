//! A kind of fault, which is a row of the table in `call` or `delivery`, and a fault of that kind.

use super::options::{FaultOption, FaultOptions, Takes};
use crate::domain::code::Code;
use crate::domain::json::fields::FieldError;

/// A kind, whose faults have an effect `E`.
#[derive(Debug)]
pub(super) struct Kind<E> {
    /// Its name on the wire, in the header and in the database.
    pub(super) name: &'static str,
    /// The options that it takes; others are refused.
    pub(super) takes: &'static [Takes],
    /// Its effect, by its options, which are complete and within their ranges.
    pub(super) effect: fn(FaultOptions) -> E,
}

/// A fault: a kind with its options, and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfKind<E> {
    kind: &'static str,
    options: FaultOptions,
    effect: E,
}

/// The kind of a name.
pub(super) fn find<E>(kinds: &'static [Kind<E>], name: &str) -> Option<&'static Kind<E>> {
    kinds.iter().find(|kind| kind.name == name)
}

/// The names of kinds, in the order of their table.
pub(super) fn names<E>(kinds: &'static [Kind<E>]) -> impl Iterator<Item = &'static str> {
    kinds.iter().map(|kind| kind.name)
}

impl<E> Kind<E> {
    /// The fault with these options, or the fields that are wrong.
    pub(super) fn with(&self, options: FaultOptions) -> Result<OfKind<E>, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut filled = FaultOptions::default();
        for takes in self.takes {
            match takes.read(options) {
                Ok(value) => filled.set(takes.option, Some(value)),
                Err(error) => errors.push(error),
            }
        }
        let is_taken = |option| self.takes.iter().any(|takes| takes.option == option);
        for option in FaultOption::ALL {
            if options.get(*option).is_some() && !is_taken(*option) {
                errors.push(FieldError::invalid(option.code(), &format!("is no option of {}", self.name)));
            }
        }
        if errors.is_empty() { Ok(self.unchecked(filled)) } else { Err(errors) }
    }

    /// The fault with unchecked options.
    pub(super) fn unchecked(&self, options: FaultOptions) -> OfKind<E> {
        OfKind { kind: self.name, options, effect: (self.effect)(options) }
    }

    /// Options that it takes.
    #[cfg(test)]
    pub(super) fn example(&self) -> FaultOptions {
        let mut options = FaultOptions::default();
        for takes in self.takes {
            options.set(takes.option, takes.default.or(Some(*takes.range.end())));
        }
        options
    }
}

impl<E> OfKind<E> {
    /// The kind's name on the wire and in the database.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// The options, with the defaults filled in.
    #[must_use]
    pub const fn options(&self) -> FaultOptions {
        self.options
    }

    /// Its effect, which the callers obey.
    #[must_use]
    pub const fn effect(&self) -> E
    where
        E: Copy,
    {
        self.effect
    }
}
