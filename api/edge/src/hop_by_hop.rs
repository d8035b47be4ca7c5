//! Requests and answers as they are handed on from one connection to another.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};

use crate::client_address::{ClientAddress, FORWARDED_FOR};
use crate::error::ApiError;

/// Fields that are of one connection, or that the next one makes itself.
const OF_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::CONTENT_LENGTH,
];

/// The request as another server is asked it, which is told the client's address.
/// Errors: its target is none.
pub fn hand_on<B>(parts: &Parts, body: B) -> Result<Request<B>, ApiError> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::builder().method(parts.method.clone()).uri(target).body(body);
    let mut request = request.map_err(|error| ApiError::internal(&error))?;
    let mut headers = parts.headers.clone();
    drop_of_connection(&mut headers);
    if let Some(client) = ClientAddress::of(&parts.extensions) {
        // INVARIANT: an address is made of a header's characters.
        let client = HeaderValue::try_from(client);
        headers.insert(FORWARDED_FOR, client.unwrap_or(HeaderValue::from_static("unknown")));
    }
    *request.headers_mut() = headers;
    Ok(request)
}

fn drop_of_connection(headers: &mut HeaderMap) {
    for name in &OF_CONNECTION {
        headers.remove(name);
    }
}

/// The answer as it is handed back, with the body that `wrap` makes of its own.
pub fn hand_back<B>(answer: Response<B>, wrap: impl FnOnce(B) -> Body) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let length = parts.headers.remove(header::CONTENT_LENGTH);
    drop_of_connection(&mut parts.headers);
    // The answer to HEAD has the length of what GET would show.
    if let Some(length) = length {
        parts.headers.insert(header::CONTENT_LENGTH, length);
    }
    Response::from_parts(parts, wrap(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_connection_stay_behind() {
        let answer = Response::builder()
            .header("connection", "close")
            .header("keep-alive", "timeout=10")
            .header("transfer-encoding", "chunked")
            .header("content-length", "7")
            .header("etag", "x")
            .body(Body::empty());
        let answer = hand_back(answer.unwrap(), std::convert::identity);
        let mut names: Vec<_> = answer.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "etag"]);
    }
}
