//! A number of places that a reload may change, such as those of client connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of one kind.
pub(crate) struct Places {
    semaphore: Arc<Semaphore>,
    most: AtomicUsize,
    /// Taken places that are too many since a reload. They do not come back when they are left.
    excess: AtomicUsize,
}

impl Places {
    /// Returns so many free places.
    pub(crate) fn new(most: usize) -> Arc<Places> {
        let semaphore = Arc::new(Semaphore::new(most));
        Arc::new(Places {
            semaphore,
            most: AtomicUsize::new(most),
            excess: AtomicUsize::new(0),
        })
    }

    /// Changes their number. Those that have a place keep it.
    pub(crate) fn set(&self, most: usize) {
        let before = self.most.swap(most, Ordering::Relaxed);
        let more = most.saturating_sub(before);
        let fewer = before.saturating_sub(most);
        let forgotten = self.semaphore.forget_permits(fewer);
        self.excess.fetch_add(fewer - forgotten, Ordering::Relaxed);
        let paid = (0..more).take_while(|_| self.takes_excess()).count();
        self.semaphore.add_permits(more - paid);
    }

    /// Returns their number.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns the number of free places.
    pub(crate) fn free(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// Returns the number of taken places, with those that are too many.
    pub(crate) fn taken(&self) -> usize {
        (self.most() + self.excess.load(Ordering::Relaxed)).saturating_sub(self.free())
    }

    /// Waits for a place.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Place {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok();
        Place {
            permit,
            places: Arc::clone(self),
        }
    }

    /// Returns a place, unless all are taken.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Place> {
        let permit = Arc::clone(&self.semaphore).try_acquire_owned().ok()?;
        Some(Place {
            permit: Some(permit),
            places: Arc::clone(self),
        })
    }

    /// Removes one of the places that are too many. Returns false if there is none.
    fn takes_excess(&self) -> bool {
        self.excess.load(Ordering::Relaxed) > 0
            && self
                .excess
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |excess| {
                    excess.checked_sub(1)
                })
                .is_ok()
    }
}

/// A place, until it is dropped.
pub(crate) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    places: Arc<Places>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.places.takes_excess() {
            self.permit
                .take()
                .into_iter()
                .for_each(OwnedSemaphorePermit::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a reload with fewer places takes some away, or leaves more for ever; or one with
    /// more does not add them.
    #[tokio::test]
    async fn places_that_are_too_many_end_with_their_holders() {
        let places = Places::new(4);
        let mut held: Vec<Place> = (0..4).filter_map(|_| places.try_acquire()).collect();
        assert_eq!((held.len(), places.free()), (4, 0));
        places.set(2);
        assert_eq!(places.taken(), 4);
        held.truncate(2);
        assert!(places.try_acquire().is_none(), "two are still taken");
        held.truncate(1);
        assert_eq!(places.free(), 1);
        // From one taken and one free to none that is free.
        places.set(1);
        assert_eq!((places.free(), places.most()), (0, 1));
        places.set(3);
        assert_eq!(places.free(), 2);
        held.extend([places.acquire().await, places.acquire().await]);
        assert!(places.try_acquire().is_none());
        // Two are too many; raised before they leave.
        places.set(1);
        places.set(2);
        drop(held);
        assert_eq!(places.free(), 2);
    }
}
