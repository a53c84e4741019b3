//! Metrics in the forms of Prometheus.

use crate::histogram::Times;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use serde_json::{Map, Value};
use std::fmt;

#[derive(Clone, Copy)]
enum MetricKind {
    Counter,
    Gauge,
}

/// One line of a table of figures of a `T`: where they are shown, and how they are read.
pub struct MetricLine<T> {
    /// The key on the status page.
    key: &'static str,
    /// The kind and the name of the metric, if it is one.
    metric: Option<(MetricKind, &'static str)>,
    help: &'static str,
    of: fn(&T) -> u64,
}

impl<T> MetricLine<T> {
    /// Returns the line of a total that only grows: its key on the status page and its metric.
    pub const fn counter(
        key: &'static str,
        metric: &'static str,
        help: &'static str,
        of: fn(&T) -> u64,
    ) -> MetricLine<T> {
        MetricLine {
            key,
            metric: Some((MetricKind::Counter, metric)),
            help,
            of,
        }
    }

    /// Returns the line of a level: its key on the status page and its metric.
    pub const fn gauge(
        key: &'static str,
        metric: &'static str,
        help: &'static str,
        of: fn(&T) -> u64,
    ) -> MetricLine<T> {
        MetricLine {
            key,
            metric: Some((MetricKind::Gauge, metric)),
            help,
            of,
        }
    }

    /// Returns the line of a figure that is no metric of its own.
    pub const fn on_page(
        key: &'static str,
        help: &'static str,
        of: fn(&T) -> u64,
    ) -> MetricLine<T> {
        MetricLine {
            key,
            metric: None,
            help,
            of,
        }
    }

    /// Adds the figures of a table to a status page.
    pub fn add_to_page(table: &[MetricLine<T>], of: &T, page: &mut Map<String, Value>) {
        for line in table {
            page.insert(line.key.to_owned(), (line.of)(of).into());
        }
    }
}

/// Where a [`StatusSource`](crate::StatusSource) writes its metrics.
pub struct Metrics<'a, 'b> {
    pub(crate) encoder: &'a mut DescriptorEncoder<'b>,
    pub(crate) written: fmt::Result,
}

impl Metrics<'_, '_> {
    /// Writes the figures of a table.
    pub fn lines<T>(&mut self, table: &[MetricLine<T>], of: &T) {
        for line in table {
            let value = (line.of)(of);
            match line.metric {
                Some((MetricKind::Counter, name)) => self.counter(name, line.help, value),
                Some((MetricKind::Gauge, name)) => self.gauge(name, line.help, value as f64),
                None => {}
            }
        }
    }

    /// Writes a total that only grows. `_total` is added to the name.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.one(name, help, &ConstCounter::new(value));
    }

    /// Writes a total for each value of a label.
    pub fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'v str, u64)>,
    ) {
        self.family(
            name,
            help,
            label,
            values.map(|(value, number)| (value, ConstCounter::new(number))),
        );
    }

    /// Writes seconds of which the total only grows. `_total` is added to the name.
    pub fn seconds(&mut self, name: &str, help: &str, value: f64) {
        self.one(name, help, &ConstCounter::new(value));
    }

    /// Writes a level.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.one(name, help, &ConstGauge::new(value));
    }

    /// Writes a level for each value of a label.
    pub fn gauges<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'v str, f64)>,
    ) {
        self.family(
            name,
            help,
            label,
            values.map(|(value, number)| (value, ConstGauge::new(number))),
        );
    }

    /// Writes a level for each set of labels.
    pub fn table<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl Iterator<Item = ([(&'static str, String); N], f64)>,
    ) {
        let encoder = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Gauge);
        let written = encoder.and_then(|mut encoder| {
            let mut rows = rows;
            rows.try_for_each(|(labels, value)| {
                ConstGauge::new(value).encode(encoder.encode_family(&labels)?)
            })
        });
        self.written = self.written.and(written);
    }

    /// Writes histograms of times in seconds, one for each set of labels.
    pub fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: &[([(&str, &str); N], Times)],
    ) {
        if rows.is_empty() {
            return;
        }
        let encoder = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Histogram);
        let written = encoder.and_then(|mut encoder| {
            rows.iter().try_for_each(|(labels, times)| {
                let mut row = encoder.encode_family(labels)?;
                row.encode_histogram::<NoLabelSet>(
                    times.seconds(),
                    times.count(),
                    &times.buckets(),
                    None,
                )
            })
        });
        self.written = self.written.and(written);
    }

    fn one(&mut self, name: &str, help: &str, metric: &impl EncodeMetric) {
        let encoder = self
            .encoder
            .encode_descriptor(name, help, None, metric.metric_type());
        self.written = self
            .written
            .and(encoder.and_then(|encoder| metric.encode(encoder)));
    }

    fn family<'v, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        metrics: impl Iterator<Item = (&'v str, M)>,
    ) {
        let mut metrics = metrics.peekable();
        let Some((_, first)) = metrics.peek() else {
            return;
        };
        let encoder = self
            .encoder
            .encode_descriptor(name, help, None, first.metric_type());
        let written = encoder.and_then(|mut encoder| {
            metrics.try_for_each(|(value, metric)| {
                metric.encode(encoder.encode_family(&[(label, value)])?)
            })
        });
        self.written = self.written.and(written);
    }
}
