//! Which face holds how much of the PIT, so that a full table takes from who floods it.
//!
//! Each entry belongs to the face whose Interest made it. Where there is no room, a face that holds
//! less than another may have the oldest entry of the one that holds the most; who holds the most
//! himself is refused. So a flood crowds out itself, and every other face keeps what it needs up to
//! an equal share. An entry for which others wait too goes over to one of them instead: else a few
//! of these at the head of the line would guard all that its holder has behind them.
//!
//! O(1): who holds the most is known from the insertions, until he holds no more than who asks;
//! then all faces are looked at, once for as many refusals as there are faces. 12 bytes an entry,
//! about 50 a face that has some.

use crate::face::FaceId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

#[derive(Default)]
pub(crate) struct PitQuota {
    /// Where faces that hold entries stand among the holders. Their numbers are the forwarder's
    /// own, so an unkeyed hash does.
    faces: HashMap<FaceId, u32, FixedState>,
    holders: Vec<Holder>,
    free: Vec<u32>,
    /// Who got an entry last, and most probably gets the next: he alone may stand here without one.
    latest: Option<u32>,
    /// By entry.
    links: Vec<Link>,
    /// Who held the most when he last got an entry.
    greatest: Option<FaceId>,
    refusals: usize,
}

/// One face's entries, in the order in which they came.
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
    /// The entry is `face`'s now.
    pub(crate) fn insert(&mut self, face: FaceId, entry: u32) {
        let number = match self.latest {
            Some(latest) if self.holders[latest as usize].face == face => latest,
            _ => self.change_latest(face),
        };
        let holder = &mut self.holders[number as usize];
        let link = Link { holder: number, older: holder.newest, newer: NONE };
        if holder.entries == 0 {
            holder.oldest = entry;
        }
        (holder.newest, holder.entries) = (entry, holder.entries + 1);
        let entries = holder.entries;
        match self.links.get_mut(entry as usize) {
            Some(place) => *place = link,
            None => {
                self.links.resize(entry as usize, Link { holder: number, older: NONE, newer: NONE });
                self.links.push(link);
            }
        }
        if link.older != NONE {
            self.links[link.older as usize].newer = entry;
        }
        if self.greatest.is_none_or(|greatest| greatest != face && entries > self.held(greatest)) {
            self.greatest = Some(face);
        }
    }

    /// The number of a face that was not the latest, which it is now.
    fn change_latest(&mut self, face: FaceId) -> u32 {
        if let Some(latest) = self.latest.filter(|latest| self.holders[*latest as usize].entries == 0) {
            self.forget(latest);
        }
        let number = match self.faces.get(&face) {
            Some(number) => *number,
            None => {
                let holder = Holder { face, entries: 0, oldest: NONE, newest: NONE };
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

    /// The entry is gone.
    pub(crate) fn remove(&mut self, entry: u32) {
        let Link { holder: number, older, newer } = self.links[entry as usize];
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

    /// The entry that may be taken for `face`: the oldest of the face with the most, where that is
    /// another, with more than it would leave `face`.
    pub(crate) fn oldest_of_the_greatest(&mut self, face: FaceId) -> Option<u32> {
        let own = self.held(face);
        let mut greatest = self.greatest.filter(|greatest| self.held(*greatest) > own + 1);
        if greatest.is_none() {
            self.refusals += 1;
            if self.refusals > self.faces.len() {
                self.refusals = 0;
                let most = self.faces.iter().max_by_key(|(_, number)| self.holders[**number as usize].entries);
                self.greatest = most.map(|(face, _)| *face);
                greatest = self.greatest.filter(|greatest| self.held(*greatest) > own + 1);
            }
        }
        greatest.and_then(|greatest| self.holder(greatest)).map(|holder| holder.oldest)
    }

    /// Who holds the entry.
    pub(crate) fn face_of(&self, entry: u32) -> FaceId {
        self.holders[self.links[entry as usize].holder as usize].face
    }

    fn held(&self, face: FaceId) -> usize {
        self.holder(face).map_or(0, |holder| holder.entries)
    }

    fn holder(&self, face: FaceId) -> Option<&Holder> {
        self.faces.get(&face).map(|number| &self.holders[*number as usize])
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
}
