//! The number of PIT entries that each face holds, so that a full PIT removes entries of the face
//! that floods it.
//!
//! Each entry belongs to the face whose Interest made it. If there is no room, a face takes the
//! oldest entry of the face that holds the most. A face that itself holds the most is refused. So a
//! flood displaces only its own entries, and every other face keeps its entries up to an equal
//! share. An entry with other consumers passes to one of them instead of being removed. Otherwise a
//! few such entries at the head of the chain would protect all entries behind them.
//!
//! O(1): insertions keep track of the face with the most entries. When that face holds no more than
//! the requesting face, all faces are scanned, once for as many refusals as there are faces. 12
//! bytes per entry, and about 50 per face with entries.

use crate::face::FaceId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

#[derive(Default)]
pub(crate) struct PitQuota {
    /// The positions of faces in `holders`. The forwarder itself numbers the faces, so an unkeyed
    /// hash is sufficient.
    faces: HashMap<FaceId, u32, FixedState>,
    holders: Vec<Holder>,
    free: Vec<u32>,
    /// The face that got the last entry, and probably gets the next one. Only this holder may have
    /// no entry.
    latest: Option<u32>,
    /// The links of the chains, by entry.
    links: Vec<Link>,
    /// The face that held the most entries when it last got one.
    greatest: Option<FaceId>,
    refusals: usize,
}

/// The entries of one face, in the order of their insertion.
#[derive(Clone, Copy)]
struct Holder {
    face: FaceId,
    entries: usize,
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Copy)]
struct Link {
    holder: u32,
    older: u32,
    newer: u32,
}

const NONE: u32 = u32::MAX;

impl PitQuota {
    /// Adds the entry to those of `face`.
    pub(crate) fn insert(&mut self, face: FaceId, entry: u32) {
        let number = match self.latest {
            Some(latest) if self.holders[latest as usize].face == face => latest,
            _ => self.change_latest(face),
        };
        let holder = &mut self.holders[number as usize];
        let link = Link {
            holder: number,
            older: holder.newest,
            newer: NONE,
        };
        if holder.entries == 0 {
            holder.oldest = entry;
        }
        (holder.newest, holder.entries) = (entry, holder.entries + 1);
        let entries = holder.entries;
        match self.links.get_mut(entry as usize) {
            Some(place) => *place = link,
            None => {
                self.links.resize(
                    entry as usize,
                    Link {
                        holder: number,
                        older: NONE,
                        newer: NONE,
                    },
                );
                self.links.push(link);
            }
        }
        if link.older != NONE {
            self.links[link.older as usize].newer = entry;
        }
        if self
            .greatest
            .is_none_or(|greatest| greatest != face && entries > self.held(greatest))
        {
            self.greatest = Some(face);
        }
    }

    /// Makes `face` the latest one, and returns its number.
    fn change_latest(&mut self, face: FaceId) -> u32 {
        if let Some(latest) = self
            .latest
            .filter(|latest| self.holders[*latest as usize].entries == 0)
        {
            self.forget(latest);
        }
        let number = match self.faces.get(&face) {
            Some(number) => *number,
            None => {
                let holder = Holder {
                    face,
                    entries: 0,
                    oldest: NONE,
                    newest: NONE,
                };
                let number = self.free.pop().unwrap_or(self.holders.len() as u32);
                match self.holders.get_mut(number as usize) {
                    Some(place) => *place = holder,
                    None => self.holders.push(holder),
                }
                self.faces.insert(face, number);
                number
            }
        };
        self.latest = Some(number);
        number
    }

    fn forget(&mut self, number: u32) {
        self.faces.remove(&self.holders[number as usize].face);
        self.free.push(number);
    }

    /// Removes the entry.
    pub(crate) fn remove(&mut self, entry: u32) {
        let Link {
            holder: number,
            older,
            newer,
        } = self.links[entry as usize];
        let holder = &mut self.holders[number as usize];
        holder.entries -= 1;
        match older {
            NONE => holder.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => holder.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        if holder.entries == 0 && self.latest != Some(number) {
            self.forget(number);
        }
    }

    /// Returns the entry that `face` may take: the oldest entry of the face with the most entries,
    /// if that is another face and holds at least two entries more than `face`.
    pub(crate) fn oldest_of_the_greatest(&mut self, face: FaceId) -> Option<u32> {
        let own = self.held(face);
        let mut greatest = self
            .greatest
            .filter(|greatest| self.held(*greatest) > own + 1);
        if greatest.is_none() {
            self.refusals += 1;
            if self.refusals > self.faces.len() {
                self.refusals = 0;
                let most = self
                    .faces
                    .iter()
                    .max_by_key(|(_, number)| self.holders[**number as usize].entries);
                self.greatest = most.map(|(face, _)| *face);
                greatest = self
                    .greatest
                    .filter(|greatest| self.held(*greatest) > own + 1);
            }
        }
        greatest
            .and_then(|greatest| self.holder(greatest))
            .map(|holder| holder.oldest)
    }

    /// Returns the face that holds the entry.
    pub(crate) fn face_of(&self, entry: u32) -> FaceId {
        self.holders[self.links[entry as usize].holder as usize].face
    }

    /// Checks that the faces' chains of entries are consistent, and that they hold exactly the
    /// entries that `is_pending` accepts, `pending` of them. O(entries); for tests.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn check_invariants(&self, pending: usize, is_pending: impl Fn(u32) -> bool) {
        let mut total = 0;
        for (face, number) in &self.faces {
            let holder = &self.holders[*number as usize];
            assert_eq!(holder.face, *face, "a face leads to its holder");
            assert!(
                holder.entries > 0 || self.latest == Some(*number),
                "only the latest holder may be empty"
            );
            let (mut older, mut entry, mut entries) = (NONE, holder.oldest, 0);
            while holder.entries > 0 && entry != NONE {
                let link = self.links[entry as usize];
                assert_eq!(
                    (link.holder, link.older),
                    (*number, older),
                    "an entry is linked to its holder"
                );
                assert!(is_pending(entry), "an entry that a face holds is pending");
                (older, entry, entries) = (entry, link.newer, entries + 1);
                assert!(
                    entries <= holder.entries,
                    "a chain has as many entries as its holder counts"
                );
            }
            assert_eq!(
                entries, holder.entries,
                "a chain has as many entries as its holder counts"
            );
            assert!(
                entries == 0 || older == holder.newest,
                "a chain ends with its newest entry"
            );
            total += entries;
        }
        assert_eq!(total, pending, "every pending entry belongs to one face");
        assert_eq!(
            self.faces.len() + self.free.len(),
            self.holders.len(),
            "every holder is in use or free"
        );
    }

    fn held(&self, face: FaceId) -> usize {
        self.holder(face).map_or(0, |holder| holder.entries)
    }

    fn holder(&self, face: FaceId) -> Option<&Holder> {
        self.faces
            .get(&face)
            .map(|number| &self.holders[*number as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_oldest_of_a_face_that_holds_more_is_taken(steps in prop::collection::vec((0u64..4, any::<bool>(), 0usize..40), 1..120)) {
            let mut holders = PitQuota::default();
            // In the order in which they came.
            let mut model: Vec<(u32, FaceId)> = Vec::new();
            let mut free: Vec<u32> = (0..120).rev().collect();
            for (face, insert, which) in steps {
                if insert || model.is_empty() {
                    let (entry, face) = (free.pop().unwrap(), FaceId(face));
                    holders.insert(face, entry);
                    model.push((entry, face));
                } else {
                    let (entry, _) = model.remove(which % model.len());
                    holders.remove(entry);
                    free.push(entry);
                }
                holders.check_invariants(model.len(), |entry| model.iter().any(|(other, _)| *other == entry));
                let held = |face: FaceId| model.iter().filter(|(_, other)| *other == face).count();
                for face in (0..5).map(FaceId) {
                    prop_assert_eq!(holders.held(face), held(face));
                    // Asked often enough, it looks at all of them.
                    let taken = (0..10).map(|_| holders.oldest_of_the_greatest(face)).last().unwrap();
                    let most = (0..4).map(|face| held(FaceId(face))).max().unwrap();
                    prop_assert_eq!(taken.is_none(), most <= held(face) + 1);
                    if let Some(first) = taken {
                        let from = holders.face_of(first);
                        prop_assert!(held(from) > held(face) + 1);
                        let oldest = model.iter().find(|(_, other)| *other == from).map(|(entry, _)| *entry);
                        prop_assert_eq!(taken, oldest);
                    }
                }
            }
        }
    }

    /// Failure: the check that property tests, simulations and fuzz targets rely on accepts a
    /// broken table.
    #[test]
    fn a_broken_quota_passes_its_check() {
        let breakages: [fn(&mut PitQuota); 7] = [
            |quota| quota.holders[0].face = FaceId(9),
            |quota| quota.holders[0].entries += 1,
            |quota| quota.holders[0].newest = 0,
            |quota| quota.links[1].older = NONE,
            |quota| quota.links[1].newer = NONE,
            |quota| quota.latest = None,
            |quota| quota.free.push(0),
        ];
        for (number, breakage) in breakages.into_iter().enumerate() {
            let mut quota = PitQuota::default();
            for entry in 0..3 {
                quota.insert(FaceId(1), entry);
            }
            quota.insert(FaceId(2), 3);
            quota.remove(3);
            quota.check_invariants(3, |entry| entry < 3);
            breakage(&mut quota);
            let check =
                std::panic::AssertUnwindSafe(|| quota.check_invariants(3, |entry| entry < 3));
            assert!(
                std::panic::catch_unwind(check).is_err(),
                "breakage {number}"
            );
        }
        let mut quota = PitQuota::default();
        quota.insert(FaceId(1), 0);
        for (pending, is_pending) in [(0, true), (2, true), (1, false)] {
            let check =
                std::panic::AssertUnwindSafe(|| quota.check_invariants(pending, |_| is_pending));
            assert!(
                std::panic::catch_unwind(check).is_err(),
                "{pending} pending"
            );
        }
    }

    /// Failure: the face that holds the most is not known without a scan of all faces, so those
    /// that hold less are refused until it comes.
    #[test]
    fn a_face_that_holds_little_is_refused_until_all_are_scanned() {
        let mut quota = PitQuota::default();
        let mut entries = 0..;
        let mut insert = |quota: &mut PitQuota, face: u64, count: usize| {
            for entry in entries.by_ref().take(count) {
                quota.insert(FaceId(face), entry);
            }
        };
        insert(&mut quota, 1, 3);
        assert_eq!(quota.oldest_of_the_greatest(FaceId(3)), Some(0));
        insert(&mut quota, 2, 5);
        assert_eq!(
            quota.oldest_of_the_greatest(FaceId(3)),
            Some(3),
            "another holds more now"
        );
        insert(&mut quota, 1, 1);
        assert_eq!(
            quota.oldest_of_the_greatest(FaceId(3)),
            Some(3),
            "this one still holds less"
        );
        insert(&mut quota, 2, 1);
        insert(&mut quota, 3, 1);
        assert_eq!(quota.oldest_of_the_greatest(FaceId(3)), Some(3));
        for entry in 3..7 {
            quota.remove(entry);
        }
        insert(&mut quota, 1, 1);
        assert_eq!(
            quota.oldest_of_the_greatest(FaceId(3)),
            Some(0),
            "the other has lost most of its own"
        );
        assert_eq!(quota.refusals, 0);
    }
}
