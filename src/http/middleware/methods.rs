//! The methods of HTTP that axum would answer by itself: HEAD and OPTIONS.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// The API has no HEAD: a client that sends one means something else. axum would answer it like a GET.
pub(in crate::http) async fn refuse_head(mut request: Request, next: Next) -> Response {
    if request.method() == Method::HEAD {
        // No route takes OPTIONS, so the router itself finds what the path allows.
        *request.method_mut() = Method::OPTIONS;
    }
    let mut response = next.run(request).await;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Some(Ok(allowed)) = response.headers().get(header::ALLOW).map(HeaderValue::to_str)
    {
        let allowed: Vec<_> = allowed.split(',').filter(|method| *method != "HEAD").collect();
        if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
    }
    response
}
