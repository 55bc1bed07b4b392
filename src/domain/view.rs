//! What a client sees of an object.

use serde::Serialize;

/// An object that has a shape on the wire.
pub trait View: Sync {
    /// The object as a client sees it. `public_url` is what the addresses of pages start with, without
    /// a slash at its end.
    fn view<'a>(&'a self, public_url: &str) -> impl Serialize + use<'a, Self>;
}
