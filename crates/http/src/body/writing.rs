//! The writer of a shared body.

use crate::body::budget::{Budget, Reservation};
use crate::body::shared_body::SharedBody;
use bytes::Bytes;
use std::sync::Arc;

/// The writer's side of a body under way: dropped before its end, the body has broken off.
#[derive(Debug)]
pub(crate) struct Writing {
    pub body: Arc<SharedBody>,
    /// Its part of the budget, until it has ended.
    room: Option<Reservation>,
}

impl Writing {
    pub(crate) fn new(budget: &Budget) -> Writing {
        Writing { body: Arc::default(), room: Some(budget.reservation()) }
    }

    pub(crate) fn room(&mut self) -> &mut Reservation {
        self.room.as_mut().expect("only the end takes it")
    }

    /// Ends the body: see [`SharedBody::finish`].
    pub(crate) fn finish(mut self) -> (Bytes, Bytes) {
        self.body.finish(self.room.take().expect("only the end takes it"))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.body.break_off(room);
        }
    }
}
