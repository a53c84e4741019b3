//! Sends requests over HTTP/2 for some seconds and counts those without a whole answer. Unlike
//! h2load, it opens another connection after a GOAWAY, as browsers and proxies do, and sends the
//! requests there that it has not sent yet.
//!
//! ```text
//! cargo run --profile dist -p larder-cli --example http2_load http://127.0.0.1:8080/1KiB/a CONNECTIONS SECONDS
//! ```
#![allow(clippy::print_stdout, reason = "its result")]

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// Requests at once on each connection.
const STREAMS: usize = 4;

#[derive(Default)]
struct Counts {
    answers: Cell<u64>,
    /// Requests that were not sent on a connection that ended: another one gets them.
    unsent: Cell<u64>,
    connections: Cell<u64>,
    failures: RefCell<BTreeMap<String, u64>>,
}

impl Counts {
    fn fail(&self, error: &dyn Error) {
        let text = error
            .source()
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        *self.failures.borrow_mut().entry(text).or_default() += 1;
    }
}

fn add(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("expected: URL CONNECTIONS SECONDS");
    let (uri, connections, seconds) = (
        next()?.parse::<Uri>()?,
        next()?.parse::<usize>()?,
        next()?.parse()?,
    );
    let counts = Rc::new(Counts::default());
    let end = Instant::now() + Duration::from_secs(seconds);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = LocalSet::new();
    for _ in 0..connections {
        let (uri, counts) = (uri.clone(), Rc::clone(&counts));
        local.spawn_local(async move {
            while Instant::now() < end {
                if let Err(error) = connection(&uri, &counts, end).await {
                    counts.fail(&*error);
                }
            }
        });
    }
    runtime.block_on(local);
    let failures: u64 = counts.failures.borrow().values().sum();
    println!(
        "{} requests, {failures} failed, {} connections, {} requests moved to another one",
        counts.answers.get(),
        counts.connections.get(),
        counts.unsent.get()
    );
    for (error, times) in counts.failures.borrow().iter() {
        println!("{times} times: {error}");
    }
    Ok(())
}

/// Uses a connection until it ends, or the time is over.
async fn connection(uri: &Uri, counts: &Rc<Counts>, end: Instant) -> Result<(), Box<dyn Error>> {
    let address = uri.authority().ok_or("the URL has no host")?.as_str();
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    add(&counts.connections);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let streams = (0..STREAMS).map(|_| {
        let (uri, counts, sender) = (uri.clone(), Rc::clone(counts), sender.clone());
        tokio::task::spawn_local(async move { stream_of(&uri, &counts, sender, end).await })
    });
    for stream in streams.collect::<Vec<_>>() {
        stream.await?;
    }
    Ok(())
}

async fn stream_of(
    uri: &Uri,
    counts: &Counts,
    mut sender: http2::SendRequest<Empty<Bytes>>,
    end: Instant,
) {
    while Instant::now() < end && sender.ready().await.is_ok() {
        let Ok(request) = Request::get(uri.clone()).body(Empty::new()) else {
            return;
        };
        match sender.try_send_request(request).await {
            Err(mut error) if error.message().is_some() => {
                drop(error.take_message());
                return add(&counts.unsent);
            }
            Err(error) => return counts.fail(&error.into_error()),
            Ok(response) => {
                let is_good = response.status().is_success();
                match response.into_body().collect().await {
                    Ok(_) if is_good => add(&counts.answers),
                    Ok(_) => counts.fail(&std::io::Error::other("another status than 2xx")),
                    Err(error) => return counts.fail(&error),
                }
            }
        }
    }
}
