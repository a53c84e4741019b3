//! The list of models that `larder predict` and Python's `predict` offer, each with its policy.

use super::{
    FilterTable, Group, Popularity, Prediction, adaptsize, che_lru, fifo, filter, lfu_limit,
    static_limit,
};
use larder_policy::Spec;
use larder_policy::adaptsize_model::Shape;
use larder_policy::limits::FILTER_MAX_WINDOW;
use larder_units::ByteSize;
use std::fmt;

/// The parameters of the models that have any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelParameters {
    /// Filter: requests in the history that admit an object, the current one included; 1 or more.
    pub theta: u16,
    /// Filter: requests in the history. `None`: as many as objects fit into the cache.
    pub window: Option<u64>,
    /// Filter: slots of the counter table, a power of two.
    pub table: u64,
    /// The size c of AdaptSize's models; `None` leaves them out.
    pub admit: Option<ByteSize>,
}

impl Default for ModelParameters {
    /// Returns the values of the Filter paper, without admission by size.
    fn default() -> ModelParameters {
        ModelParameters {
            theta: 2,
            window: None,
            table: 1 << 24,
            admit: None,
        }
    }
}

/// A model at one capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// The name of the model.
    pub model: &'static str,
    /// The spec of the modelled policy; `None` for a bound that no policy reaches.
    pub policy: Option<String>,
    /// The model's prediction.
    pub predicted: Prediction,
}

/// The length of Filter's history for one capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLength {
    /// The requests in the history that the model uses.
    pub used: u64,
    /// The length that follows from the capacity. Another one is used if the filter does not accept
    /// it.
    pub derived: u64,
}

/// A parameter that no policy accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// The name of the parameter, which is also that of its flag and of its keyword argument.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The problem and the remedy.
    pub reason: String,
}

impl fmt::Display for ParameterError {
    /// Writes `name=value: reason` for Python. The command line writes its flag instead of the
    /// name.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}: {}", self.name, self.value, self.reason)
    }
}

impl std::error::Error for ParameterError {}

impl ModelParameters {
    /// Returns all models at a capacity. Call [`check`](Self::check) before.
    pub fn models(&self, popularity: &Popularity, capacity: ByteSize) -> Vec<Modelled> {
        let HistoryLength { used: window, .. } = self.history(popularity, capacity);
        let ModelParameters { theta, table, .. } = *self;
        let filter_table = FilterTable {
            theta: u32::from(theta),
            window,
            slots: Some(table),
        };
        let filter_spec = format!("filter(theta={theta},window={window},table={table})+fifo");
        let by_fifo = fifo(popularity, capacity);
        let mut models = vec![
            ("Gelenbe", Some("fifo".to_owned()), by_fifo),
            ("Gelenbe", Some("random".to_owned()), by_fifo),
            ("Che", Some("lru".to_owned()), che_lru(popularity, capacity)),
            (
                "Filter, (3) to (7)",
                Some(filter_spec),
                filter(popularity, capacity, filter_table),
            ),
            (
                "most requested",
                Some("lfu".to_owned()),
                lfu_limit(popularity, capacity),
            ),
            ("best fixed set", None, static_limit(popularity, capacity)),
        ];
        if let Some(c) = self.admit.map(ByteSize::bytes) {
            for (name, shape) in [("threshold", Shape::Threshold), ("expsize", Shape::Chance)] {
                let predicted = adaptsize(popularity, capacity, shape, c as f64);
                models.push((
                    "AdaptSize, Lemma 2",
                    Some(format!("{name}(c={c})+lru")),
                    predicted,
                ));
            }
        }
        models
            .into_iter()
            .map(|(model, policy, predicted)| Modelled {
                model,
                policy,
                predicted,
            })
            .collect()
    }

    /// Returns the length of Filter's history: `window`, or the paper's q = C, where C is the
    /// number of objects that fit, limited to what the filter accepts.
    pub fn history(&self, popularity: &Popularity, capacity: ByteSize) -> HistoryLength {
        if let Some(window) = self.window {
            return HistoryLength {
                used: window,
                derived: window,
            };
        }
        let derived = fitting(popularity, capacity);
        let used = derived.clamp(u64::from(self.theta), self.table.min(FILTER_MAX_WINDOW));
        HistoryLength { used, derived }
    }

    /// Checks the parameters, before a prediction. A model accepts values that a policy refuses.
    ///
    /// # Errors
    ///
    /// The first parameter that no policy accepts.
    pub fn check(&self) -> Result<(), ParameterError> {
        let ModelParameters { theta, table, .. } = *self;
        let error = |name, value: &dyn fmt::Display, reason| {
            Err(ParameterError {
                name,
                value: value.to_string(),
                reason,
            })
        };
        let refusal = |spec: String| spec.parse::<Spec>().err().map(|error| error.to_string());
        if theta == 0 {
            return error("theta", &theta, "give 1 to 65535 requests".to_owned());
        }
        if let Some(reason) = refusal(format!("filter(table={table})+fifo")) {
            return error("table", &table, reason);
        }
        if let Some(window) = self.window {
            if let Some(reason) = refusal(format!("filter(window={window})+fifo")) {
                return error("window", &window, reason);
            }
            if window > table {
                let reason = format!("longer than the table of {table} slots, which would be full");
                return error("window", &window, reason);
            }
        }
        let window = self.window.unwrap_or(table);
        if u64::from(theta) > window {
            let reason =
                format!("a history of {window} requests never holds as many; give a longer window");
            return error("theta", &theta, reason);
        }
        match self
            .admit
            .and_then(|c| Some((c, refusal(format!("threshold(c={})+lru", c.bytes()))?)))
        {
            Some((c, reason)) => error("admit", &c, reason),
            None => Ok(()),
        }
    }
}

/// Returns the number of objects of the mean size of a request that fit.
fn fitting(popularity: &Popularity, capacity: ByteSize) -> u64 {
    let sum = |of: fn(&Group) -> f64| popularity.groups().iter().map(of).sum::<f64>();
    let mean_size = sum(|group| group.objects * group.rate * group.size)
        / sum(|group| group.objects * group.rate);
    (capacity.bytes() as f64 / mean_size).round() as u64
}
