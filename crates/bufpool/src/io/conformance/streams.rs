//! Requests that are prepared while others are in flight.

use super::super::Feed;
use super::*;

/// Reads of single pages in turns of different lengths, of three tenants; one in seven lies beyond the end of
/// the file.
struct Reads<'a> {
    file: SourceRef,
    memory: &'a Pages,
    group: Arc<Group>,
    prepared: usize,
    turn: usize,
    landed: Vec<usize>,
    failed: Vec<usize>,
}

const READS: usize = 150;

fn is_beyond(number: usize) -> bool {
    number % 7 == 3
}

impl Feed for Reads<'_> {
    fn prepare(&mut self, requests: &mut Vec<Request>) -> bool {
        self.turn += 1;
        let until = (self.prepared + self.turn % 5 + 1).min(READS);
        self.group.expect(until - self.prepared);
        for number in self.prepared..until {
            let at = if is_beyond(number) { READS + number } else { number };
            let action = read(at, self.memory.buffer(number));
            let tenant = Some(TenantId(number as u32 / 50));
            requests
                .push(Request { tenant, ..request(&self.file, action, number as u64, self.group.clone()) });
        }
        std::mem::replace(&mut self.prepared, until) < until
    }

    fn land(&mut self) {
        let mut successes = Vec::new();
        self.group.take_successes(&mut successes);
        self.landed.extend(successes.into_iter().map(|token| token as usize));
        for (token, error) in self.group.take_failures() {
            assert!(error.is_end_of_file(), "{error}");
            self.failed.push(token as usize);
        }
    }
}

/// Each request lands once, with its own outcome; before the call returns.
pub(super) fn streams(bench: &Bench) {
    let file = bench.file("a", READS);
    let mut memory = Pages::new(READS);
    for prepared in [READS, READS - 1, 0] {
        memory.bytes().fill(0);
        let group = Group::for_stream();
        let mut feed = Reads {
            file: file.clone(),
            memory: &memory,
            group: Arc::clone(&group),
            prepared,
            turn: 0,
            landed: Vec::new(),
            failed: Vec::new(),
        };
        bench.backend.stream(&mut feed, &group);
        let Reads { mut landed, mut failed, .. } = feed;
        landed.sort_unstable();
        failed.sort_unstable();
        let (beyond, within): (Vec<_>, Vec<_>) = (prepared..READS).partition(|number| is_beyond(*number));
        assert_eq!((&landed, &failed), (&within, &beyond));
        for number in within {
            assert!(memory.page(number).iter().all(|&byte| byte == pattern(number)), "page {number}");
        }
    }
}
