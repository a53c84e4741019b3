//! Bodies from the origin on their way into the store.

use crate::base::fair_places::FairPlace;
use crate::base::limits;
use crate::base::places::Place;
use crate::base::timeouts::Timeouts;
use crate::cache::shards::OpenFill;
use crate::message::body::Timed;
use crate::origin::origin_body::OriginBody;
use hyper::body::Body;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep};

/// A place of a request at the origins.
pub(crate) enum RequestPlace {
    /// A place of a client, which waits for nothing else.
    #[expect(dead_code, reason = "it is held until it is dropped")]
    OfClient(FairPlace),
    /// A place of a validation in the background.
    #[expect(dead_code, reason = "it is held until it is dropped")]
    Background(Place),
}

/// Reads a body from the origin into the store and to all its readers, at the pace of the origin; a
/// part that may not be stored, at the pace of the slowest reader. It continues when clients leave,
/// so that a body for the store is fetched once.
///
/// A hand-written future: a small body arrives with its head, and is read to its end here, without
/// a box or a task.
pub(crate) struct Collecting {
    body: Timed<OriginBody>,
    /// `None` after it is done.
    fill: Option<OpenFill>,
    /// While slices wait for the disk: the start of the wait, and its end.
    slices_wait: Option<(Instant, Pin<Box<Sleep>>)>,
    /// True after the whole body has arrived.
    has_ended: bool,
    /// A place among the requests in progress.
    _place: RequestPlace,
}

impl Collecting {
    pub(crate) fn new(
        body: OriginBody,
        fill: OpenFill,
        timeouts: &Timeouts,
        place: RequestPlace,
    ) -> Collecting {
        let silence = if fill.may_be_silent() {
            timeouts.origin_relay()
        } else {
            timeouts.origin_read
        };
        let body = Timed::new(body, silence);
        Collecting {
            body,
            fill: Some(fill),
            slices_wait: None,
            has_ended: false,
            _place: place,
        }
    }

    /// Passes slices to the disk, and waits briefly if it is slower than the origin.
    fn poll_slices(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(fill) = self.fill.as_mut().filter(|fill| fill.has_slices()) {
            if fill.put_slices() {
                self.slices_wait = None;
                continue;
            }
            let pause = || Instant::now() + limits::SLICES_PAUSE;
            let new = || (Instant::now(), Box::pin(tokio::time::sleep_until(pause())));
            let (since, sleep) = self.slices_wait.get_or_insert_with(new);
            if since.elapsed() >= limits::SLICES_WAIT {
                fill.stop_slicing();
                continue;
            }
            ready!(sleep.as_mut().poll(cx));
            sleep.as_mut().reset(pause());
        }
        Poll::Ready(())
    }

    /// Returns true if the body has ended without an error.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            ready!(self.poll_slices(cx));
            let Some(fill) = &mut self.fill else {
                return Poll::Ready(false);
            };
            if self.has_ended {
                return Poll::Ready(true);
            }
            if !ready!(fill.poll_room(cx)) {
                return Poll::Ready(false);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        fill.push(data);
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "the origin's body broke off");
                    return Poll::Ready(false);
                }
                None => self.has_ended = true,
            }
            self.has_ended |= self.body.is_end_stream();
        }
    }
}

impl Future for Collecting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let well = ready!(self.poll_end(cx));
        // Dropped, it has broken off.
        if let Some(fill) = self.fill.take().filter(|_| well) {
            fill.complete();
        }
        Poll::Ready(())
    }
}
