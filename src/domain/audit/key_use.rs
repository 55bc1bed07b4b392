//! The uses of each key, within the 24 hours for which it means one request.

use std::collections::HashMap;

use super::history::{Attempt, History};

/// The attempts under one key before it expired, of which there is at least one, in the order in which
/// they came in.
#[derive(Debug)]
pub(super) struct KeyUse<'h, 'a> {
    pub(super) key: &'h str,
    pub(super) attempts: Vec<&'h Attempt<'a>>,
}

/// Every key, in the order of first use. A key that was used again after 24 hours is listed again.
/// Keys of which uses may be missing are left out.
pub(super) fn key_uses<'h, 'a>(history: &'h History<'a>) -> Vec<KeyUse<'h, 'a>> {
    let mut current: HashMap<&str, usize> = HashMap::new();
    let mut uses: Vec<KeyUse<'h, 'a>> = Vec::new();
    for attempt in history.attempts() {
        let Some(key) = attempt.key() else { continue };
        let known = current.get(key).and_then(|place| uses.get_mut(*place));
        if let Some(known) = known.filter(|known| !known.attempts[0].key_expired_by(attempt)) {
            known.attempts.push(attempt);
        } else {
            current.insert(key, uses.len());
            uses.push(KeyUse { key, attempts: vec![attempt] });
        }
    }
    uses.retain(|key_use| history.is_whole_since(key_use.attempts[0]));
    uses
}
