//! A client's stream beneath hyper's HTTP/1: what comes is looked at (`framing.rs`), and interim responses are written (`interim.rs`).

use super::framing::Framing;
use super::interim::Interims;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(super) struct ClientStream<S> {
    stream: S,
    framing: Framing,
    interims: Interims,
}

impl<S> ClientStream<S> {
    pub(super) fn new(stream: S, interims: Interims) -> ClientStream<S> {
        ClientStream { stream, framing: Framing::default(), interims }
    }
}

impl<S: AsyncWrite + Unpin> ClientStream<S> {
    fn poll_interims(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ClientStream { stream, interims, .. } = self;
        interims.poll_write(cx, |cx, bytes| Pin::new(&mut *stream).poll_write(cx, bytes))
    }

    /// The rest of what has begun.
    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.interims.are_begun() { self.poll_interims(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.framing.has_refused() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let passed = self.framing.pass(&mut buffer.filled_mut()[before..]);
        buffer.set_filled(before + passed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_begun(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_begun(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper has nothing left to write: the place for what it does not know of.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.interims.are_waiting() {
            ready!(self.poll_interims(cx))?;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::{HeaderMap, StatusCode, Version};
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// The fear: hyper asks for the body while the client has half of a hint, and the one stands within the other.
    #[tokio::test]
    async fn what_hyper_says_does_not_stand_within_a_hint() {
        const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
        let (near, mut far) = tokio::io::duplex(20);
        let interims = Interims::default();
        let mut stream = ClientStream::new(near, interims.clone());
        interims.turn().send(StatusCode::EARLY_HINTS, Version::HTTP_11, &HeaderMap::new());
        assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_flush(cx).is_pending())).await);
        let saying = async {
            stream.write_all(CONTINUE.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let mut all = String::new();
        let (_, read) = tokio::join!(saying, far.read_to_string(&mut all));
        read.unwrap();
        assert_eq!(all, format!("HTTP/1.1 103 Early Hints\r\nvia: 1.1 larder\r\n\r\n{CONTINUE}"));
    }
}
