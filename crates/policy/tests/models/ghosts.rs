//! Two lists and their ghosts: 2Q, ARC, CAR.

use super::{CAPACITY, Model, Queue, bytes, find, new, remember, take};

pub struct TwoQ {
    share: u64,
    out: u64,
    a1_in: Queue,
    a1_out: Queue,
    main: Queue,
}

impl TwoQ {
    pub fn new(share: u64, out: u64) -> TwoQ {
        TwoQ {
            share,
            out,
            a1_in: Queue::new(),
            a1_out: Queue::new(),
            main: Queue::new(),
        }
    }
}

impl Model for TwoQ {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if let Some(item) = take(&mut self.main, id) {
            self.main.push(item);
            return true;
        }
        if find(&self.a1_in, id).is_some() {
            return true;
        }
        while bytes(&self.main) + bytes(&self.a1_in) + size > CAPACITY {
            if bytes(&self.a1_in) > CAPACITY * self.share / 100 || self.main.is_empty() {
                let item = self.a1_in.remove(0);
                remember(&mut self.a1_out, item, CAPACITY * self.out / 100);
            } else {
                self.main.remove(0);
            }
        }
        match take(&mut self.a1_out, id) {
            Some(_) => self.main.push(new(id, size)),
            None => self.a1_in.push(new(id, size)),
        }
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.main, id);
        take(&mut self.a1_in, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.main
            .iter()
            .chain(&self.a1_in)
            .map(|item| item.id)
            .collect()
    }
}

#[derive(Default)]
pub struct Arc {
    p: f64,
    t1: Queue,
    t2: Queue,
    b1: Queue,
    b2: Queue,
}

impl Model for Arc {
    fn request(&mut self, id: u64, size: u64) -> bool {
        let Arc { p, t1, t2, b1, b2 } = self;
        if let Some(item) = take(t1, id).or_else(|| take(t2, id)) {
            t2.push(item);
            return true;
        }
        let (in_b1, in_b2) = (find(b1, id), find(b2, id));
        let ratio = bytes(b2) as f64 / bytes(b1) as f64;
        if let Some(place) = in_b1 {
            *p = (*p + b1[place].size as f64 * ratio.max(1.0)).min(CAPACITY as f64);
        } else if let Some(place) = in_b2 {
            let ratio = bytes(b1) as f64 / bytes(b2) as f64;
            *p = (*p - b2[place].size as f64 * ratio.max(1.0)).max(0.0);
        }
        while bytes(t1) + bytes(t2) + size > CAPACITY {
            let length = bytes(t1) as f64;
            if t2.is_empty()
                || (!t1.is_empty() && (length > *p || (in_b2.is_some() && length == *p)))
            {
                remember(b1, t1.remove(0), CAPACITY);
            } else {
                remember(b2, t2.remove(0), CAPACITY);
            }
        }
        let first_in_b1 = take(b1, id).is_some();
        if take(b2, id).is_some() || first_in_b1 {
            t2.push(new(id, size));
        } else {
            t1.push(new(id, size));
        }
        while bytes(t1) + bytes(b1) > CAPACITY {
            b1.remove(0);
        }
        while bytes(t1) + bytes(b1) + bytes(t2) + bytes(b2) > 2 * CAPACITY {
            b2.remove(0);
        }
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.t1, id);
        take(&mut self.t2, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.t1.iter().chain(&self.t2).map(|item| item.id).collect()
    }
}

#[derive(Default)]
pub struct Car {
    p: f64,
    t1: Queue,
    t2: Queue,
    b1: Queue,
    b2: Queue,
}

impl Model for Car {
    fn request(&mut self, id: u64, size: u64) -> bool {
        let Car { p, t1, t2, b1, b2 } = self;
        if let Some(item) = t1
            .iter_mut()
            .chain(t2.iter_mut())
            .find(|item| item.id == id)
        {
            item.count = 1;
            return true;
        }
        while bytes(t1) + bytes(t2) + size > CAPACITY {
            if !t1.is_empty() && (bytes(t1) as f64 >= *p || t2.is_empty()) {
                match t1.remove(0) {
                    item if item.count == 0 => remember(b1, item, CAPACITY),
                    item => t2.push(new(item.id, item.size)),
                }
            } else {
                match t2.remove(0) {
                    item if item.count == 0 => remember(b2, item, CAPACITY),
                    item => t2.push(new(item.id, item.size)),
                }
            }
        }
        let (recent, frequent) = (bytes(b1) as f64, bytes(b2) as f64);
        match (take(b1, id), take(b2, id)) {
            (Some(ghost), _) => {
                *p = (*p + ghost.size as f64 * (frequent / recent).max(1.0)).min(CAPACITY as f64);
                t2.push(new(id, size));
            }
            (None, Some(ghost)) => {
                *p = (*p - ghost.size as f64 * (recent / frequent).max(1.0)).max(0.0);
                t2.push(new(id, size));
            }
            (None, None) => t1.push(new(id, size)),
        }
        while bytes(t1) + bytes(b1) > CAPACITY {
            b1.remove(0);
        }
        while bytes(t1) + bytes(b1) + bytes(t2) + bytes(b2) > 2 * CAPACITY {
            b2.remove(0);
        }
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.t1, id);
        take(&mut self.t2, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.t1.iter().chain(&self.t2).map(|item| item.id).collect()
    }
}
