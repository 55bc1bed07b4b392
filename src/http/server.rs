//! The server: accepts connections and speaks HTTP/1.1 on them. Unlike `axum::serve`, it can close a connection
//! instead of sending a response.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, server::conn::http1};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

/// How long a connection may idle, or take to send the head of a request. Longer than common clients keep one in
/// their pool, so that the client closes it first.
const IDLE: Duration = Duration::from_mins(2);

/// How long to wait after a connection could not be accepted, as when there are too many.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Marks a response that is not sent: its connection is closed without a byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost;

/// A response that was lost on purpose.
#[derive(Debug, thiserror::Error)]
#[error("the response is lost, as a fault asked for")]
struct LostResponse;

/// Serves until `stop` is cancelled; then running requests are finished.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => serve_connection(stream, router.clone(), &graceful),
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

fn serve_connection(stream: TcpStream, router: Router, graceful: &GracefulShutdown) {
    // Each response is written at once; waiting for more data would only delay it.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| respond(router.clone(), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::spawn(async move {
        // Errors are those of clients, or the ones that `respond` makes.
        let _ = connection.await;
    });
}

/// An error here lets hyper close the connection without a byte.
async fn respond(mut router: Router, request: Request<Incoming>) -> Result<Response, LostResponse> {
    let response: Result<Response, Infallible> = router.call(request.map(Body::new)).await;
    let Ok(response) = response;
    if response.extensions().get::<Lost>().is_some() { Err(LostResponse) } else { Ok(response) }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
