//! Clients with random directives, which give each response to the oracle.

use super::oracle::{Asked, History};
use super::origin::REQUEST;
use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Method};
use larder_netsim::tcp::{HttpRequest, HttpResponse, Requester};
use larder_units::{Stream, Time};
use std::sync::{Arc, Mutex};

pub struct RandomRequester {
    /// The number of the client's first cache; `None` if it asks the origin.
    pub cache: Option<usize>,
    pub variants: u64,
    /// The share of requests with directives.
    pub directives: f64,
    /// The share of unsafe requests.
    pub writes: f64,
    pub stream: Stream,
    /// Entity tags that it has received.
    pub tags: Vec<(u64, HeaderValue)>,
    pub history: Arc<Mutex<History>>,
}

impl RandomRequester {
    fn directive(&mut self) -> String {
        let seconds = self.stream.below(6);
        match self.stream.below(9) {
            0 | 1 => "no-cache".to_owned(),
            2 => "max-age=0".to_owned(),
            3 => format!("max-age={seconds}"),
            4 => format!("min-fresh={seconds}"),
            5 => format!("max-stale={seconds}"),
            6 => "no-store".to_owned(),
            7 => "only-if-cached".to_owned(),
            _ => format!("max-age={seconds}, max-stale={}", self.stream.below(6)),
        }
    }
}

impl Requester for RandomRequester {
    fn request(&mut self, now: Time, object: u64) -> HttpRequest {
        let method = match () {
            () if self.stream.chance(self.writes) => {
                [Method::PUT, Method::POST, Method::DELETE][self.stream.below(3) as usize].clone()
            }
            () if self.stream.chance(0.05) => Method::HEAD,
            () => Method::GET,
        };
        let mut request = HttpRequest::new(method, object);
        let headers = &mut request.headers;
        if self.variants > 1 {
            let variant = format!("l{}", self.stream.below(self.variants));
            headers.insert(ACCEPT_LANGUAGE, HeaderValue::try_from(variant).unwrap());
        }
        if self.stream.chance(0.04) {
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Basic x"));
        }
        let tag = self
            .tags
            .iter()
            .find(|(of, _)| *of == object)
            .map(|(_, tag)| tag.clone());
        if let Some(tag) = tag.filter(|_| self.stream.chance(0.15)) {
            headers.insert(IF_NONE_MATCH, tag);
        }
        if self.stream.chance(self.directives) {
            let directive = HeaderValue::try_from(self.directive()).unwrap();
            request.headers.insert(CACHE_CONTROL, directive);
        }
        let mut history = self.history.lock().unwrap();
        request
            .headers
            .insert(REQUEST, HeaderValue::from(history.asked.len()));
        let asked = Asked {
            at: now,
            cache: self.cache,
            request: request.clone(),
            ended: None,
            acknowledged: None,
        };
        history.asked.push(asked);
        request
    }

    fn on_end(&mut self, now: Time, request: &HttpRequest, response: Option<&HttpResponse>) {
        let mut history = self.history.lock().unwrap();
        let Some(response) = response else {
            history.seen.failures += 1;
            return;
        };
        history.check(now, request, response);
        if let Some(tag) = response.headers.get(ETAG) {
            self.tags.retain(|(object, _)| *object != request.object);
            self.tags.push((request.object, tag.clone()));
        }
    }
}
