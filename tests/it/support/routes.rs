//! The routes as the source of the router names them, so that a test of every route meets a new one, too.

use reqwest::Method;

use super::pages::{files_below, read};

/// A path and the methods it takes.
#[derive(Debug)]
pub(crate) struct Route {
    /// The path as the router has it, with names in braces.
    pub(crate) path: String,
    pub(crate) methods: Vec<Method>,
}

/// Every route of src/http.
pub(crate) fn all() -> Vec<Route> {
    let mut routes = Vec::new();
    for file in files_below("src/http") {
        let source = read(&file);
        assert!(!source.contains(".nest("), "{file}: below a prefix, a path would not be read whole");
        routes.extend(source.split(".route(").skip(1).map(|rest| Route::parse(arguments(rest))));
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

/// Those for merchants, who bring a key.
pub(crate) fn with_key() -> impl Iterator<Item = Route> {
    all().into_iter().filter(|route| !route.is_page() && !route.is_health_check())
}

impl Route {
    /// Reads `"/path", get(show).post(create)`.
    fn parse(arguments: &str) -> Self {
        let path = arguments.split('"').nth(1).expect("a path").to_owned();
        let names = arguments.split('(').map(|before| {
            let name = before.rsplit(|char: char| !char.is_ascii_lowercase()).next();
            name.unwrap_or_default()
        });
        let methods = names.filter_map(|name| match name {
            "get" => Some(Method::GET),
            "post" => Some(Method::POST),
            "put" => Some(Method::PUT),
            "patch" => Some(Method::PATCH),
            "delete" => Some(Method::DELETE),
            _ => None,
        });
        let route = Self { path, methods: methods.collect() };
        assert!(!route.methods.is_empty(), "no method in {arguments}");
        route
    }

    /// The path with `A1` for each name.
    pub(crate) fn example(&self) -> String {
        let segments = self.path.split('/').map(|part| if part.starts_with('{') { "A1" } else { part });
        segments.collect::<Vec<_>>().join("/")
    }

    /// The methods as the header `Allow` lists them.
    pub(crate) fn allowed(&self) -> String {
        self.methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ")
    }

    /// The methods it does not take.
    pub(crate) fn other_methods(&self) -> impl Iterator<Item = Method> {
        let all = [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
        ];
        all.into_iter().filter(|method| !self.methods.contains(method))
    }

    /// Whether buyers meet it, in a browser.
    pub(crate) fn is_page(&self) -> bool {
        self.path.starts_with("/checkout/")
    }

    fn is_health_check(&self) -> bool {
        ["/healthz", "/readyz"].contains(&self.path.as_str())
    }
}

/// The arguments of a call: what stands before the bracket that closes it.
fn arguments(rest: &str) -> &str {
    let mut depth = 0;
    let end = rest.find(|char| {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    &rest[..end.expect("a bracket that closes")]
}
