//! Bodies that are put together from slices. One task per body asks the cache for the next piece
//! and, if a piece is not in memory, the disk and the origin. The body follows the pace of its
//! client: at most [`limits::PIECES_AHEAD`] pieces are ahead of it. Missing slices are fetched
//! ahead, at most [`limits::SLICES_AHEAD`], each by a task that ends with the body.

use crate::base::limits;
use crate::cache::shards::{
    BrokenOff, NextPiece, OpenExchange, ShardAssembly, SharedReader, SliceWaitEnd,
};
use crate::exchange::disk_body::Reading;
use crate::exchange::fill::{Collecting, RequestPlace};
use crate::exchange::outgoing::Outgoing;
use crate::exchange::peers::FromPeer;
use crate::exchange::proxy::Proxy;
use crate::exchange::proxy::file_rules::response_rules;
use crate::exchange::upstream_request::LiveTarget;
use crate::message::body::BodyError;
use crate::message::channel_body::{Pieces, Sender};
use crate::message::upload::Upload;
use ::http::Method;
use larder_http::{Assembly, ResponseHead, TierSlice};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Starts to assemble a body.
pub(crate) fn assemble(
    proxy: Arc<Proxy>,
    assembly: ShardAssembly<Assembly>,
    upstream_target: LiveTarget,
) -> Outgoing {
    let left = assembly.left();
    let upstream_target = Arc::new(upstream_target);
    let (sender, receiver) = mpsc::channel(limits::PIECES_AHEAD);
    tokio::spawn(async move {
        tokio::select! {
            _ = deliver(proxy, assembly, &upstream_target, &sender) => {}
            () = sender.closed() => {}
        }
    });
    Outgoing::Assembled(Pieces::new(receiver, left))
}

/// `None` if the body broke off: the client has got the error, or has gone.
async fn deliver(
    proxy: Arc<Proxy>,
    mut assembly: ShardAssembly<Assembly>,
    upstream_target: &Arc<LiveTarget>,
    sender: &Sender,
) -> Option<()> {
    let mut ahead = Ahead::default();
    loop {
        ahead.extend(&proxy, &assembly, upstream_target);
        // If it has failed, the slice is requested once more.
        if let Some(fetch) = ahead.take(&assembly)
            && let Some(reader) = fetch.reader().await
        {
            pass(reader, &mut assembly, sender).await?;
            continue;
        }
        let next = proxy.shards().next_piece(&mut assembly);
        let reader = match next {
            NextPiece::End => return Some(()),
            NextPiece::Bytes(bytes) => {
                sender.send(Ok(bytes)).await.ok()?;
                continue;
            }
            NextPiece::TierLookup(key) => {
                match proxy.tier_slice(&key, &mut assembly).await {
                    None => {}
                    Some(TierSlice::Bytes(bytes)) => sender.send(Ok(bytes)).await.ok()?,
                    Some(TierSlice::Streamed(part)) => {
                        let length = part.left();
                        let mut reading = Reading::new(proxy.disk()?, proxy.budget(), *part)?;
                        let delivered = reading.deliver(sender).await;
                        if let Err(None) = delivered {
                            return None;
                        }
                        // If the disk fails, the rest comes from the origin.
                        assembly.took(usize::try_from(length - reading.left()).ok()?);
                    }
                }
                continue;
            }
            NextPiece::Read(reader) => Ok(reader),
            NextPiece::Wait(mut waiting) => match poll_fn(|cx| waiting.poll_end(cx)).await {
                SliceWaitEnd::Read(reader) => Ok(reader),
                SliceWaitEnd::Again => {
                    tokio::task::yield_now().await;
                    continue;
                }
                SliceWaitEnd::Broken => Err("the origin failed"),
            },
            NextPiece::Ask(exchange) => ask(&proxy, exchange, upstream_target).await,
        };
        match reader {
            Ok(reader) => pass(reader, &mut assembly, sender).await?,
            Err(reason) => {
                tracing::debug!(reason, "a body of slices broke off");
                let _ = sender.send(Err(BodyError::new(reason))).await;
                return None;
            }
        }
    }
}

/// The slices that are fetched ahead, in the order of the body.
#[derive(Default)]
struct Ahead {
    fetches: VecDeque<(u64, Fetch)>,
    /// The number of turns of the body, each of about a slice.
    turns: usize,
}

impl Ahead {
    /// Starts to fetch slices that the body will need.
    fn extend(
        &mut self,
        proxy: &Arc<Proxy>,
        assembly: &ShardAssembly<Assembly>,
        upstream_target: &Arc<LiveTarget>,
    ) {
        self.turns += 1;
        let most = self.turns.min(limits::SLICES_AHEAD);
        while self.fetches.len() < most {
            let is_known = |at: u64| self.fetches.iter().any(|(known, _)| *known == at);
            let Some((at, next)) = proxy.shards().next_ahead(assembly, most, &is_known) else {
                return;
            };
            let (proxy, upstream_target) = (Arc::clone(proxy), Arc::clone(upstream_target));
            let task = tokio::spawn(async move {
                match next {
                    NextPiece::Ask(exchange) => ask(&proxy, exchange, &upstream_target).await.ok(),
                    NextPiece::Wait(mut waiting) => {
                        match poll_fn(|cx| waiting.poll_end(cx)).await {
                            SliceWaitEnd::Read(reader) => Some(reader),
                            SliceWaitEnd::Again | SliceWaitEnd::Broken => None,
                        }
                    }
                    _ => None,
                }
            });
            self.fetches.push_back((at, Fetch(task)));
        }
    }

    /// Returns the fetch of the next bytes, if there is one.
    fn take(&mut self, assembly: &ShardAssembly<Assembly>) -> Option<Fetch> {
        let at = assembly.at()?;
        let found = self.fetches.iter().position(|(start, _)| *start == at)?;
        self.fetches.remove(found).map(|(_, fetch)| fetch)
    }
}

/// A slice that is fetched ahead. Dropped, it ends, unless the slice already arrives: then it goes
/// on into the store.
struct Fetch(JoinHandle<Option<SharedReader>>);

impl Fetch {
    /// Waits for the head of the slice.
    async fn reader(mut self) -> Option<SharedReader> {
        (&mut self.0).await.ok().flatten()
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn ask(
    proxy: &Arc<Proxy>,
    mut exchange: OpenExchange,
    upstream_target: &LiveTarget,
) -> Result<SharedReader, &'static str> {
    if let Some(rules) = response_rules(upstream_target) {
        exchange.set_rules(rules);
    }
    let client = upstream_target.target.client;
    let place = if upstream_target.target.is_of_peer {
        // It does not wait for a place: see `peer_request::busy`.
        proxy.limits().requests.try_acquire(client)
    } else {
        Some(proxy.place(client).await)
    };
    let Some(place) = place else {
        proxy.shards().on_slice_failure(exchange);
        return Err("there is no place for another request");
    };
    let response = proxy
        .ask(
            Method::GET,
            upstream_target,
            || exchange.retry_headers(),
            Upload::empty(),
        )
        .await;
    let Ok(response) = response else {
        proxy.shards().on_slice_failure(exchange);
        return Err("the origin failed");
    };
    let (mut head, body) = response.into_parts();
    if let Some(FromPeer) = head.extensions.remove() {
        exchange.set_peer_response(&mut head.headers);
    }
    let mut head = ResponseHead {
        status: head.status,
        version: head.version,
        headers: head.headers,
    };
    if let Some(rules) = &upstream_target.target.rules {
        rules.change_origin_response(head.status, &mut head.headers);
    }
    let fill = proxy
        .shards()
        .on_slice(exchange, head)
        .ok_or("the origin has something else now")?;
    let reader = fill.reader().ok_or("the slice has gone by")?;
    tokio::spawn(Collecting::new(
        body,
        fill,
        &upstream_target.live.timeouts,
        RequestPlace::OfClient(place),
    ));
    Ok(reader)
}

/// Forwards a slice while it arrives.
async fn pass(
    mut reader: SharedReader,
    assembly: &mut ShardAssembly<Assembly>,
    sender: &Sender,
) -> Option<()> {
    loop {
        let piece = match poll_fn(|cx| reader.poll_piece(cx)).await {
            None => return Some(()),
            Some(Ok(bytes)) => {
                assembly.took(bytes.len());
                Ok(bytes)
            }
            Some(Err(BrokenOff)) => Err(BodyError::new("the origin's body broke off")),
        };
        let whole = piece.is_ok();
        sender.send(piece).await.ok()?;
        if !whole {
            return None;
        }
    }
}
