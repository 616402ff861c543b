//! A queue of events by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of events. Events of the same time come in the order in which they were added, so runs repeat
/// exactly.
pub struct Events<K> {
    heap: BinaryHeap<Reverse<Event<K>>>,
    added: u64,
}

struct Event<K> {
    at_us: u64,
    number: u64,
    kind: K,
}

impl<K> Default for Events<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<K> Events<K> {
    /// Adds an event at time `at_us`, in microseconds.
    pub fn add(&mut self, at_us: u64, kind: K) {
        self.heap.push(Reverse(Event { at_us, number: self.added, kind }));
        self.added += 1;
    }

    /// Takes the earliest event; returns its time and the event.
    pub fn pop(&mut self) -> Option<(u64, K)> {
        self.heap.pop().map(|Reverse(event)| (event.at_us, event.kind))
    }
}

impl<K> PartialEq for Event<K> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<K> Eq for Event<K> {}

impl<K> PartialOrd for Event<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Event<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_order() {
        let mut events = Events::default();
        [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')]
            .into_iter()
            .for_each(|(at_us, kind)| events.add(at_us, kind));
        let all: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(all, [(3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
    }
}
