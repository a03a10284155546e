//! How a figure is measured.

use std::time::Duration;

use crate::{failure::Failure, process::Program};

/// An odd number, so that there is one in the middle.
const ROUNDS: usize = 5;

/// Something that takes time, or memory.
pub(super) type Measure<'a, T> = &'a mut dyn FnMut() -> Result<T, Failure>;

/// Returns the median of each measure. They take turns, so that what else the machine does falls on all of them.
pub(super) fn medians<T: Copy + Default + Ord, const COUNT: usize>(
    mut measures: [Measure<'_, T>; COUNT],
) -> Result<[T; COUNT], Failure> {
    let mut taken: [Vec<T>; COUNT] = std::array::from_fn(|_| Vec::with_capacity(ROUNDS));
    // The first round fills caches, and does not count.
    for round in 0..=ROUNDS {
        for (measure, taken) in measures.iter_mut().zip(&mut taken) {
            let amount = measure()?;
            if round > 0 {
                taken.push(amount);
            }
        }
    }
    Ok(taken.map(|mut amounts| median(&mut amounts)))
}

/// Runs a program many times, and returns the mean of one run.
pub(super) fn mean_of(program: &mut Program, runs: u32) -> Result<Duration, Failure> {
    let mut total = Duration::ZERO;
    for _ in 0..runs {
        total += program.time()?;
    }
    Ok(total / runs)
}

/// Returns the one in the middle; the lower one of two.
fn median<T: Copy + Default + Ord>(amounts: &mut [T]) -> T {
    amounts.sort_unstable();
    amounts.get(amounts.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Duration, ROUNDS, median, medians};

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_median_is_not_moved_by_one_slow_round() {
        assert_eq!(median(&mut [ms(900), ms(1), ms(3), ms(2), ms(4)]), ms(3));
        assert_eq!(median(&mut [ms(2), ms(1)]), ms(1));
        assert_eq!(median::<Duration>(&mut []), ms(0));
    }

    #[test]
    fn the_first_round_does_not_count_and_measures_take_turns() {
        let order = std::cell::RefCell::new(String::new());
        let mut next = 100;
        let subject = &mut || {
            order.borrow_mut().push('s');
            next -= 10;
            Ok(ms(next))
        };
        let floor = &mut || {
            order.borrow_mut().push('f');
            Ok(ms(1))
        };
        assert_eq!(medians([subject, floor]).unwrap(), [ms(60), ms(1)]);
        assert_eq!(order.into_inner(), "sf".repeat(ROUNDS + 1));
    }
}
