//! The query of a list: its filters and its cursor. All errors are named at once, as in a body.

use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::envelope::{self, Page};
use super::error::ApiError;
use super::extract::Caller;
use crate::domain::json::fields::{FieldError, Fields};
use crate::domain::refusal::Refusal;

const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;

/// Where a page of a list starts, and how long it may be.
pub(super) struct Cursor {
    pub(super) limit: i64,
    pub(super) starting_after: Option<String>,
}

impl Cursor {
    /// How many rows to read: one more than the page holds, to know whether there are more.
    pub(super) const fn rows(&self) -> i64 {
        self.limit + 1
    }

    /// The answer to a list: the page over the rows that were read, and the names of unknown parameters.
    pub(super) fn answer<T: Serialize>(
        &self,
        caller: Caller,
        mut rows: Vec<T>,
        ignored: &[String],
    ) -> Response {
        let limit = usize::try_from(self.limit).unwrap_or_default();
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let mut response = envelope::ok(caller.request_id, Page { items: rows, has_more });
        envelope::name_ignored(&mut response, ignored);
        response
    }
}

/// The parameters of a query. Each may occur once.
pub(super) fn fields(uri: &Uri) -> Fields {
    let mut object = Map::new();
    let mut twice = Vec::new();
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if object.insert(name.to_string(), Value::from(value.as_ref())).is_some() {
            twice.push(FieldError::invalid(&name, "stands more than once"));
        }
    }
    let mut fields = Fields::new(object);
    for error in twice {
        fields.refuse(error);
    }
    fields
}

/// Reads a query: the cursor, and with `read` the filters.
pub(super) fn parse<T>(
    uri: &Uri,
    read: impl FnOnce(&mut Fields) -> T,
) -> Result<(Cursor, T, Vec<String>), ApiError> {
    let mut fields = fields(uri);
    let limit = fields.optional("limit", limit).unwrap_or(DEFAULT_LIMIT);
    let starting_after = fields.optional("starting_after", text);
    let filters = read(&mut fields);
    let parsed = fields.finish(|| Some((Cursor { limit, starting_after }, filters)));
    let (cursor, filters) = parsed.content.map_err(Refusal::Fields)?;
    Ok((cursor, filters, parsed.ignored))
}

/// The error for a cursor that names no item of the list.
pub(super) fn no_such_item(kind: &str) -> ApiError {
    let message = format!("is not a number of one of this merchant's {kind}");
    Refusal::Fields(vec![FieldError::invalid("starting_after", &message)]).into()
}

/// Reads a filter as text.
pub(super) fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(String::new)
}

fn limit(value: &Value) -> Result<i64, String> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or_else(|| format!("must be an integer from 1 to {MAX_LIMIT}"))
}
