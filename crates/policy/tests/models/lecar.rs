//! LeCaR by searching one vector for what each expert would evict.

use super::{CAPACITY, Item, Model, new};
use larder_units::{Stream, Streams};

/// What is stored, or was, with the request that it notes.
type Noted = Vec<(Item, u64)>;

pub struct Lecar {
    dice: Stream,
    /// Of LRU and of LFU.
    weights: [f64; 2],
    requests: u64,
    /// With the last request of each.
    stored: Noted,
    /// With the request for which each left, of LRU and of LFU.
    histories: [Noted; 2],
}

fn place(noted: &Noted, id: u64) -> Option<usize> {
    noted.iter().position(|(item, _)| item.id == id)
}

fn size(noted: &Noted) -> u64 {
    noted.iter().map(|(item, _)| item.size).sum()
}

impl Default for Lecar {
    fn default() -> Self {
        let dice = Streams::new(1).stream("policy stage 0 lecar");
        Lecar {
            dice,
            weights: [0.5; 2],
            requests: 0,
            stored: Noted::new(),
            histories: Default::default(),
        }
    }
}

impl Lecar {
    fn learn(&mut self, id: u64) {
        let Some(expert) = (0..2).find(|expert| place(&self.histories[*expert], id).is_some())
        else {
            return;
        };
        let (_, left) = self.histories[expert][place(&self.histories[expert], id).unwrap()];
        let discount = 0.005_f64.powf(1.0 / self.stored.len().max(1) as f64);
        self.weights[1 - expert] *= (0.45 * discount.powf((self.requests - left) as f64)).exp();
        let sum: f64 = self.weights.iter().sum();
        let least = 0.01;
        self.weights = self
            .weights
            .map(|weight| (weight / sum).clamp(least, 1.0 - least));
    }

    fn evict(&mut self) {
        let stored = || self.stored.iter().enumerate();
        let oldest = stored().min_by_key(|(_, (_, last))| *last).unwrap().0;
        let rarest = stored()
            .min_by_key(|(_, (item, last))| (item.count, *last))
            .unwrap()
            .0;
        if oldest == rarest {
            self.stored.remove(oldest);
            return;
        }
        let expert = if self.dice.unit() < self.weights[0] {
            0
        } else {
            1
        };
        let (item, _) = self.stored.remove([oldest, rarest][expert]);
        let history = &mut self.histories[expert];
        if item.size <= CAPACITY / 2 {
            history.push((item, self.requests));
        }
        while size(history) > CAPACITY / 2 {
            history.remove(0);
        }
    }
}

impl Model for Lecar {
    fn request(&mut self, id: u64, size_of: u64) -> bool {
        self.requests += 1;
        if let Some(place) = place(&self.stored, id) {
            self.stored[place].0.count += 1;
            self.stored[place].1 = self.requests;
            return true;
        }
        self.learn(id);
        while size(&self.stored) + size_of > CAPACITY {
            self.evict();
        }
        let mut item = Item {
            count: 1,
            ..new(id, size_of)
        };
        for history in &mut self.histories {
            if let Some(place) = place(history, id) {
                item.count += history.remove(place).0.count;
            }
        }
        self.stored.push((item, self.requests));
        false
    }

    fn remove(&mut self, id: u64) {
        self.stored.retain(|(item, _)| item.id != id);
    }

    fn cached(&self) -> Vec<u64> {
        self.stored.iter().map(|(item, _)| item.id).collect()
    }
}
