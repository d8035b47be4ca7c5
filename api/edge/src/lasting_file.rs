//! A long file as the body of an answer: read as fast as the client takes it, never faster. A slow
//! client reads for hours, so it breaks off where the access of its reader ends.

use std::fmt::Display;

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use crate::lasting_access::LastingAccess;

/// A body of the pieces that `next` reads from `source`, none at the end; `kind` is its name in the
/// log.
pub fn lasting_file<S, E, F>(
    kind: &'static str,
    (source, access): (S, LastingAccess),
    next: impl Fn(S) -> F + Copy + Send + 'static,
) -> Body
where
    S: Send + 'static,
    E: Display + Into<BoxError>,
    F: Future<Output = Result<Option<(Bytes, S)>, E>> + Send,
{
    Body::from_stream(stream::try_unfold(
        (source, access),
        move |(source, mut access)| async move {
            // A piece may be ready at once: without a rest a fast client would keep the thread.
            tokio::task::yield_now().await;
            let piece = next(source).await.map_err(Into::into);
            // The client may have taken its time since the last piece.
            let piece: Result<_, BoxError> = match access.is_open() {
                true => piece,
                false => Err("whoever reads it may not see it any more".into()),
            };
            // The client sees a body that breaks off; only the log can say why.
            let piece = piece.inspect_err(|error| tracing::warn!(%error, "{kind} broke off"))?;
            Ok::<_, BoxError>(piece.map(|(piece, source)| (piece, (source, access))))
        },
    ))
}
