//! Bodies that are put together from slices. One task per body asks the cache for the next piece
//! and, if a piece is not in memory, the disk and the origin. The body follows the pace of its
//! client: at most [`limits::PIECES_AHEAD`] pieces are ahead of it.

use super::body::{BodyError, Collecting, Outgoing, Upload};
use super::informational::Turn;
use super::limits;
use super::proxy::Proxy;
use super::streamed::Reading;
use ::http::uri::PathAndQuery;
use ::http::{HeaderValue, Method};
use bytes::Bytes;
use larder_http::{Assembly, BrokenOff, Exchange, Piece, Reader, ResponseHead, TierSlice};
use std::future::poll_fn;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The target of requests for slices, and the client that they serve.
pub(super) struct UpstreamTarget {
    pub(super) target: PathAndQuery,
    /// The client's address for `X-Forwarded-For`.
    pub(super) peer: HeaderValue,
    /// The scheme of the client's request: `http` or `https`.
    pub(super) scheme: &'static str,
    /// The host, as it is keyed.
    pub(super) host: HeaderValue,
    /// The informational responses that the client may get before its response. Slices have none:
    /// they are requested after the head of the response has left.
    pub(super) interims: Option<Turn>,
}

/// The assembled pieces of a body.
pub(super) struct Pieces {
    receiver: mpsc::Receiver<Result<Bytes, BodyError>>,
    /// Bytes to come.
    pub(super) left: u64,
}

impl Pieces {
    /// A body of so many bytes.
    pub(super) fn new(receiver: mpsc::Receiver<Result<Bytes, BodyError>>, left: u64) -> Pieces {
        Pieces { receiver, left }
    }

    pub(super) fn poll(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Bytes, BodyError>>> {
        self.receiver.poll_recv(cx).map(|piece| match piece {
            Some(Ok(bytes)) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(Ok(bytes))
            }
            // The task has ended before the body.
            None if self.left > 0 => Some(Err(BodyError::new("the body broke off"))),
            other => other,
        })
    }
}

/// Starts to assemble a body.
pub(super) fn assemble(proxy: Arc<Proxy>, assembly: Assembly, upstream_target: UpstreamTarget) -> Outgoing {
    let left = assembly.left();
    let (sender, receiver) = mpsc::channel(limits::PIECES_AHEAD);
    tokio::spawn(async move {
        tokio::select! {
            _ = deliver(proxy, assembly, &upstream_target, &sender) => {}
            () = sender.closed() => {}
        }
    });
    Outgoing::Assembled(Pieces::new(receiver, left))
}

pub(super) type Sender = mpsc::Sender<Result<Bytes, BodyError>>;

/// `None` if the body broke off: the client has got the error, or has gone.
async fn deliver(
    proxy: Arc<Proxy>,
    mut assembly: Assembly,
    upstream_target: &UpstreamTarget,
    sender: &Sender,
) -> Option<()> {
    loop {
        let next = proxy.next_piece(&mut assembly);
        let reader = match next {
            Piece::End => return Some(()),
            Piece::Bytes(bytes) => {
                sender.send(Ok(bytes)).await.ok()?;
                continue;
            }
            Piece::TierLookup(key) => {
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
            Piece::Read(reader) => Ok(reader),
            Piece::Wait(mut follower) => match poll_fn(|cx| follower.poll_slice(cx)).await {
                Ok(Some(reader)) => Ok(reader),
                Ok(None) => continue,
                Err(BrokenOff) => Err("the origin failed"),
            },
            Piece::Ask(exchange) => ask(&proxy, exchange, upstream_target).await,
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

async fn ask(
    proxy: &Arc<Proxy>,
    exchange: Box<Exchange>,
    upstream_target: &UpstreamTarget,
) -> Result<Reader, &'static str> {
    let place = proxy.place().await;
    let response = proxy.ask(Method::GET, upstream_target, || exchange.retry_headers(), Upload::empty()).await;
    let Ok(response) = response else {
        proxy.slice_failed(exchange);
        return Err("the origin failed");
    };
    let (head, body) = response.into_parts();
    let head = ResponseHead { status: head.status, version: head.version, headers: head.headers };
    let fill = proxy.slice(exchange, head).ok_or("the origin has something else now")?;
    let reader = fill.reader().ok_or("the slice has gone by")?;
    tokio::spawn(Collecting::new(body, fill, Arc::clone(proxy), place));
    Ok(reader)
}

/// Forwards a slice while it arrives.
async fn pass(mut reader: Reader, assembly: &mut Assembly, sender: &Sender) -> Option<()> {
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
