//! The ReadN experiment of the LRU-SP paper: a program beside another one that manages its frames foolishly.

use std::ops::Range;

use anyhow::{Result, ensure};
use bufpool::{File, Policy, Tenant};

use super::answer::Answer;
use super::contract::Workload;
use super::database::Database;
use super::session::Session;

/// The paper's cache of 6.4 MB.
const FRAMES: u64 = 819;

/// Passes over a group of pages before the next group.
const PASSES: u64 = 5;

const FOREGROUND: Groups = Groups { file: "read-foreground.pages", pages: 1170, group: 390 };
const BACKGROUND: Groups = Groups { file: "read-background.pages", pages: 1310, group: 300 };
/// The background program over a file that does not fit in memory: the foolish neighbour of other workloads.
pub(super) const NEIGHBOUR: Groups = Groups { file: "neighbour.pages", pages: 6000, group: 300 };

/// Read390 in the foreground and Read300 in the background, three accesses to two.
///
/// Directive: the background replaces its most recently used page first, which is foolish, since it reads
/// each group several times. The foreground is oblivious. Under LRU-SP the directive costs the background
/// alone.
pub struct ReadN;

impl Workload for ReadN {
    fn name(&self) -> &'static str {
        "readn"
    }

    fn build(&self, database: &Database) -> Result<()> {
        FOREGROUND.build(database)?;
        BACKGROUND.build(database)
    }

    fn frames(&self, _database: &Database) -> Result<u64> {
        Ok(FRAMES)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let foreground = FOREGROUND.open(session, session.tenant("foreground", |_| Ok(()))?)?;
        let background = BACKGROUND.open(session, foolish_tenant(session)?)?;
        // After the end of one program the other one runs alone.
        let rounds = (FOREGROUND.accesses().div_ceil(3)).max(BACKGROUND.accesses().div_ceil(2));
        session.share(rounds, |round, answer| {
            for at in 3 * round..(3 * round + 3).min(FOREGROUND.accesses()) {
                answer.add(0, foreground.read(at)?);
            }
            for at in 2 * round..(2 * round + 2).min(BACKGROUND.accesses()) {
                answer.add(1, background.read(at)?);
            }
            Ok(())
        })
    }

    fn expected(&self, _database: &Database, _seed: u64) -> Answer {
        let pages = |groups: Groups| (0..groups.accesses()).map(move |at| groups.page(at));
        pages(FOREGROUND).map(|page| (0, page)).chain(pages(BACKGROUND).map(|page| (1, page))).collect()
    }
}

/// A tenant that gives up the pages that it needs next, if tenants give directives under the scheme.
pub(super) fn foolish_tenant(session: &Session<'_>) -> Result<Tenant> {
    session.tenant("background", |background| background.set_policy(0, Policy::Mru))
}

/// A file that is read in groups of pages, each group several times before the next. The last group may be
/// smaller.
#[derive(Clone, Copy)]
pub(super) struct Groups {
    file: &'static str,
    pages: u64,
    group: u64,
}

impl Groups {
    /// Accesses of one pass through the file.
    pub fn accesses(&self) -> u64 {
        PASSES * self.pages
    }

    /// The page of access number `at`.
    pub fn page(&self, at: u64) -> u64 {
        let first = at / (PASSES * self.group) * self.group;
        let group = self.group.min(self.pages - first);
        first + at % (PASSES * self.group) % group
    }

    /// Makes the file: each page holds its number.
    pub fn build(&self, database: &Database) -> Result<()> {
        database.build(self.file, |file, tenant, _| {
            for number in file.extend(self.pages)? {
                tenant.create(file.page(number))?[..8].copy_from_slice(&number.to_le_bytes());
            }
            Ok(())
        })
    }

    /// Opens the file for `tenant`.
    pub fn open(self, session: &Session<'_>, tenant: Tenant) -> Result<Reader> {
        let file = session.database.open(session.pool, self.file, false)?;
        Ok(Reader { groups: self, file, tenant })
    }
}

/// Reads a file in groups.
pub(super) struct Reader {
    groups: Groups,
    file: File,
    tenant: Tenant,
}

impl Reader {
    /// Makes these accesses with one `read_many`. Those for which it would have had to block are made after
    /// it, one by one.
    pub fn read_list(&self, accesses: Range<u64>) -> Result<()> {
        let numbers: Vec<u64> = accesses.map(|at| self.groups.page(at)).collect();
        let pages: Vec<_> = numbers.iter().map(|&number| self.file.page(number)).collect();
        let mut left = Vec::new();
        for (page, &number) in self.tenant.read_many(&pages).into_iter().zip(&numbers) {
            match page? {
                Some(page) => self.check(&page, number).map(drop)?,
                None => left.push(number),
            }
        }
        left.into_iter()
            .try_for_each(|number| self.check(&self.tenant.read(self.file.page(number))?, number).map(drop))
    }

    /// Makes access number `at` and returns the number found on the page.
    pub fn read(&self, at: u64) -> Result<u64> {
        let number = self.groups.page(at);
        self.check(&self.tenant.read(self.file.page(number))?, number)
    }

    fn check(&self, page: &[u8], number: u64) -> Result<u64> {
        let found = u64::from_le_bytes(page[..8].try_into()?);
        ensure!(found == number, "page {number} of {} holds number {found}", self.groups.file);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_read_five_times_in_order() {
        let groups = Groups { file: "", pages: 5, group: 2 };
        let pages: Vec<u64> = (0..groups.accesses()).map(|at| groups.page(at)).collect();
        let expected = [[0, 1].repeat(5), [2, 3].repeat(5), [4].repeat(5)].concat();
        assert_eq!(pages, expected);
    }
}
