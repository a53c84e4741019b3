//! Buffers of queues that are empty.

use crate::limits::{SPARE_BUFFER_BYTES, SPARE_BUFFERS};

/// Spare buffers for queues. An empty queue holds no memory, and a queue that fills and empties at
/// every turn allocates none.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// Gives a buffer to a queue without one.
    #[inline]
    pub(crate) fn provide(&mut self, queue: &mut Vec<u8>) {
        if queue.capacity() == 0
            && let Some(spare) = self.0.pop()
        {
            *queue = spare;
        }
    }

    /// Takes the buffer of a written queue back. Frees a buffer that has become large.
    pub(crate) fn take_back(&mut self, queue: &mut Vec<u8>) {
        let mut buffer = std::mem::take(queue);
        if self.0.len() < SPARE_BUFFERS && buffer.capacity() <= SPARE_BUFFER_BYTES {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_queues_hold_memory_and_spare_buffers_without_end() {
        let mut spare = SpareBuffers::default();
        let mut queues: Vec<Vec<u8>> = (0..100).map(|n| vec![1; 1000 + n]).collect();
        queues.push(vec![1; SPARE_BUFFER_BYTES + 1]);
        for queue in queues.iter_mut().rev() {
            spare.take_back(queue);
        }
        assert!(queues.iter().all(|queue| queue.capacity() == 0));
        assert!(
            spare.0.len() == SPARE_BUFFERS && spare.0.iter().all(|buffer| buffer.capacity() < 2000)
        );
        spare.provide(&mut queues[0]);
        assert!(
            queues[0].is_empty() && queues[0].capacity() >= 1000,
            "used again, without what it held"
        );
    }
}
