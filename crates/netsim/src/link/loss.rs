//! Losses of a link. Each channel draws them from its own random stream.

use larder_units::Stream;

/// The model by which frames are lost after they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No losses.
    #[default]
    None,
    /// Each frame with this probability.
    Uniform(f64),
    /// In bursts, by a channel with two states (Gilbert, BSTJ 39, 1960; Elliott, BSTJ 42, 1963).
    /// Each frame first moves the state, then is lost with the probability of the state.
    GilbertElliott {
        /// Probability per frame of a move from good to bad.
        to_bad: f64,
        /// Probability per frame of a move from bad to good.
        to_good: f64,
        /// Probability of loss in the good state.
        good: f64,
        /// Probability of loss in the bad state.
        bad: f64,
    },
}

impl Loss {
    /// The long-run share of lost frames.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Uniform(p) => p,
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                let share_bad = if to_bad + to_good > 0.0 {
                    to_bad / (to_bad + to_good)
                } else {
                    0.0
                };
                share_bad * bad + (1.0 - share_bad) * good
            }
        }
    }

    /// Returns true if all probabilities are between 0 and 1.
    pub(crate) fn is_sound(&self) -> bool {
        let all = match *self {
            Loss::None => [0.0; 4],
            Loss::Uniform(p) => [p; 4],
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => [to_bad, to_good, good, bad],
        };
        all.iter().all(|p| (0.0..=1.0).contains(p))
    }

    /// Draws whether the next frame is lost; `in_bad` is the state of the channel.
    pub(crate) fn is_lost(&self, in_bad: &mut bool, stream: &mut Stream) -> bool {
        match *self {
            Loss::None => false,
            Loss::Uniform(p) => stream.chance(p),
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                *in_bad ^= stream.chance(if *in_bad { to_good } else { to_bad });
                stream.chance(if *in_bad { bad } else { good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    #[test]
    fn losses_have_the_mean_and_the_bursts_that_were_asked_for() {
        let loss = Loss::GilbertElliott {
            to_bad: 0.01,
            to_good: 0.2,
            good: 0.0,
            bad: 1.0,
        };
        let (mut in_bad, mut stream) = (false, Streams::new(1).stream("loss"));
        let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
        for _ in 0..200_000 {
            let now = loss.is_lost(&mut in_bad, &mut stream);
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        let share = f64::from(lost) / 200_000.0;
        assert!(
            (share - loss.mean()).abs() < 0.005,
            "{share} and {}",
            loss.mean()
        );
        // A burst ends with probability 0.2, so its mean length is five frames.
        let length = f64::from(lost) / f64::from(bursts);
        assert!((length - 5.0).abs() < 0.4, "{length}");
    }
}
