//! The freshness of a read of `/v1`: the header that tells it, and the parameter that asks for it.
//!
//! Each record has a sequence number. An answer carries that of the newest record it can show. A client that
//! hands it in as `min_seq` sees no less, whichever node of a cluster answers. Without it a node that leads
//! shows all that any client was answered: it makes sure that it still leads, once for all waiting
//! reads.

use axum::extract::{Query as UriQuery, Request, State};
use axum::http::{HeaderName, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::engine::Engine;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::query::Query;

use crate::error::ApiError;
use crate::switch::Switch;
use crate::write_error::WriteError;

/// The header of answers with the number of the newest record that they can show.
pub const SEQ: HeaderName = HeaderName::from_static("cardswitch-seq");
/// The parameter of reads with the number of a record that they must show.
pub const MIN_SEQ: &str = "min_seq";

/// The newest record that an answer at a path can show; none where it shows no records.
pub fn newest_shown(path: &str) -> Option<fn(&Engine) -> RecordSeq> {
    // Apps come there before they have access.
    if path.starts_with("/v1/oauth/") {
        None
    } else if path.starts_with("/v1/") {
        Some(|engine| engine.watermark.applied())
    } else if path.starts_with("/network/v1/") {
        // A purchase is answered before the tables have it.
        Some(Engine::durable_seq)
    } else {
        None
    }
}

/// Whether a request changes nothing.
pub fn is_read(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// The record that a request must show.
/// Errors: the parameter is no whole number.
pub fn min_seq_of(uri: &Uri) -> Result<Option<RecordSeq>, ApiError> {
    if !uri.query().is_some_and(|query| query.contains(MIN_SEQ)) {
        return Ok(None);
    }
    let parameters = UriQuery::<Vec<(String, String)>>::try_from_uri(uri);
    let mut query = Query::new(parameters.map_err(|_| ApiError::malformed_query())?.0);
    let seq = query.whole_number(MIN_SEQ, "");
    query.finish()?;
    Ok(seq.map(|seq| RecordSeq(seq as u64)))
}

/// Lets reads through that show what they must.
pub async fn read_as_asked(State(switch): State<Switch>, request: Request, next: Next) -> Response {
    match make_sure(&switch, (request.method(), request.uri())).await {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn make_sure(switch: &Switch, (method, uri): (&Method, &Uri)) -> Result<(), ApiError> {
    if !is_read(method) {
        return Ok(());
    }
    let Some(seq) = min_seq_of(uri)? else { return switch.confirm().await };
    if switch.engine.watermark.applied() >= seq {
        return Ok(());
    }
    switch.confirm().await?;
    if seq > switch.engine.durable_seq() {
        let flaw = Flaw::new("out_of_range", "must be the `cardswitch-seq` of an earlier answer");
        return Err(ApiError::invalid_field(MIN_SEQ, flaw));
    }
    if switch.visible(seq).await { Ok(()) } else { Err(WriteError::NotVisibleYet.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_a_whole_number() {
        let rows = [
            ("/v1/cards", Some(None)),
            ("/v1/cards?limit=3&min_seq=", Some(None)),
            ("/v1/cards?min_seq=17", Some(Some(17))),
            ("/v1/cards?xmin_seq=17", Some(None)),
            ("/v1/cards?min_seq=99999999999999999999999", Some(Some(u64::MAX))),
            ("/v1/cards?min_seq=-1", None),
            ("/v1/cards?min_seq=a", None),
        ];
        for (uri, expected) in rows {
            let found = min_seq_of(&uri.parse().unwrap()).ok();
            assert_eq!(found, expected.map(|seq| seq.map(RecordSeq)), "{uri}");
        }
    }
}
