//! The evolution: how parents are drawn, children made, and the next parents selected.

use std::collections::{HashMap, HashSet};

use bufpool_policies::program::Program;

use super::draft::Draft;
use super::mutate::{Change, mutate};
use super::{Points, SearchError, library};
use crate::parallel;
use crate::random::Random;

/// Programs that stay from one generation to the next.
const PARENTS: usize = 32;
/// The most parents that come from one program of the library, so that those of the program that is best at
/// first do not displace all others.
const KIN: usize = 8;
/// The most programs that are graded in a generation, whatever the number of threads.
const CHILDREN: u64 = 16;
/// A parent is the best of this many drawn.
const TOURNAMENT: u64 = 3;
/// Attempts at one child before it is given up.
const TRIES: u32 = 2000;
/// The most instructions of a program, so that dead code does not accumulate.
const INSTRUCTIONS_MAX: u32 = 200;
/// The most programs of the last generation that are graded on whole traces, if the others were graded on
/// samples.
const FINALISTS: u64 = 8;
/// The name of programs that are found.
const NAME: &str = "found";

/// Budget, seed and threads of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions {
    /// How many programs are graded, at least 1: those of the library, children, and those graded on whole
    /// traces at the end.
    pub budget: u64,
    /// The seed of everything drawn at random.
    pub seed: u64,
    /// The most threads that grade programs.
    pub jobs: usize,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The program.
    pub program: Program,
    /// The program of the library that it comes from.
    pub origin: &'static str,
    /// The program's grade during the search: on samples, if the traces are long.
    pub grade: f64,
    /// The grade of the best program of the library during the search.
    pub first_grade: f64,
    /// How many programs were graded.
    pub evaluations: u64,
}

/// A program and its grade.
#[derive(Clone)]
struct Graded {
    program: Program,
    origin: &'static str,
    grade: f64,
    instructions: u32,
}

/// Searches for a program with a low grade on `whole`. During the search programs are graded on samples of
/// the traces, if these are long. `report` is called with the evaluations so far and the best grade, after
/// the programs of the library are graded and after each generation.
///
/// # Errors
///
/// If a trace cannot be played.
pub fn search(
    whole: &Points,
    options: &SearchOptions,
    report: &mut dyn FnMut(u64, f64),
) -> Result<Found, SearchError> {
    let samples = whole.samples(options.jobs)?;
    let finalists = if samples.is_some() { FINALISTS.min(options.budget / 8) } else { 0 };
    let points = samples.as_ref().unwrap_or(whole);
    let mut evolution = Evolution {
        points,
        jobs: options.jobs,
        random: Random::new(options.seed),
        seen: HashSet::new(),
        parents: Vec::new(),
        evaluations: 0,
    };
    let left = options.budget - finalists;
    evolution.begin(left)?;
    let first_grade = evolution.parents[0].grade;
    report(evolution.evaluations, first_grade);
    // In the first third only constants change, so that each program of the library is tuned before its
    // structure changes.
    let constants_until = left / 3;
    while evolution.evaluations < left {
        let is_early = evolution.evaluations < constants_until;
        let constants = if is_early { 1.0 } else { 0.25 };
        if !evolution.generation(left, constants)? {
            break;
        }
        report(evolution.evaluations, evolution.parents[0].grade);
    }
    let best = evolution.choose(whole, finalists as usize)?;
    let Graded { program, origin, grade, .. } = best;
    Ok(Found { program, origin, grade, first_grade, evaluations: evolution.evaluations })
}

struct Evolution<'a> {
    points: &'a Points,
    jobs: usize,
    random: Random,
    /// The binary form of each program that was graded.
    seen: HashSet<Vec<u8>>,
    /// The best first.
    parents: Vec<Graded>,
    evaluations: u64,
}

impl Evolution<'_> {
    /// Grades the programs of the library, as far as the budget goes.
    fn begin(&mut self, budget: u64) -> Result<(), SearchError> {
        let programs: Vec<_> = library().into_iter().take(budget.max(1) as usize).collect();
        self.seen.extend(programs.iter().map(|(_, program)| program.to_bytes()));
        self.add(programs)
    }

    /// Makes children and grades them. Returns false if none could be made. `constants` is the probability
    /// that a change is one of a constant.
    fn generation(&mut self, budget: u64, constants: f64) -> Result<bool, SearchError> {
        let wanted = CHILDREN.min(budget - self.evaluations);
        let mut children = Vec::new();
        for _ in 0..wanted {
            children.extend(self.child(constants));
        }
        let is_any = !children.is_empty();
        self.add(children)?;
        Ok(is_any)
    }

    /// A program that was not graded before, and differs from a parent by a few changes.
    fn child(&mut self, constants: f64) -> Option<(&'static str, Program)> {
        for _ in 0..TRIES {
            let drawn = (0..TOURNAMENT).map(|_| self.random.below(self.parents.len() as u64)).min();
            let parent = &self.parents[drawn.unwrap_or(0) as usize];
            let mut draft = Draft::of(&parent.program);
            loop {
                let is_constant = self.random.chance(constants);
                let change = if is_constant { Change::Constant } else { Change::Instruction };
                mutate(&mut draft, change, &mut self.random);
                if self.random.chance(0.5) {
                    break;
                }
            }
            // The binary form has no labels, so programs that differ in labels alone are the same program.
            let Ok(child) = Program::parse(&draft.text(NAME)) else { continue };
            if instructions(&child) <= INSTRUCTIONS_MAX && self.seen.insert(child.to_bytes()) {
                return Some((parent.origin, child));
            }
        }
        None
    }

    /// Grades programs, and keeps the best of them and of the parents. Of programs with equal grades, which
    /// mostly decide alike, the shortest one stays.
    fn add(&mut self, programs: Vec<(&'static str, Program)>) -> Result<(), SearchError> {
        let limit = match self.parents.last() {
            Some(worst) if self.parents.len() == PARENTS => worst.grade,
            _ => f64::INFINITY,
        };
        let grades =
            parallel::map(programs.len(), self.jobs, |number| self.points.grade(&programs[number].1, limit));
        self.evaluations += programs.len() as u64;
        for ((origin, program), grade) in programs.into_iter().zip(grades) {
            let instructions = instructions(&program);
            self.parents.push(Graded { program, origin, grade: grade?, instructions });
        }
        self.parents.sort_by(|one, other| {
            one.grade.total_cmp(&other.grade).then(one.instructions.cmp(&other.instructions))
        });
        self.parents.dedup_by_key(|graded| graded.grade.to_bits());
        let mut kin: HashMap<&str, usize> = HashMap::new();
        self.parents.retain(|graded| {
            let of_origin = kin.entry(graded.origin).or_default();
            *of_origin += 1;
            *of_origin <= KIN
        });
        self.parents.truncate(PARENTS);
        Ok(())
    }

    /// The best of the first `finalists` parents on whole traces; the first parent if `finalists` is 0.
    fn choose(&mut self, whole: &Points, finalists: usize) -> Result<Graded, SearchError> {
        let mut best: Option<(f64, usize)> = None;
        for number in 0..finalists.min(self.parents.len()) {
            let grade = whole.grade_of(&whole.misses(&self.parents[number].program, self.jobs)?);
            self.evaluations += 1;
            if best.is_none_or(|(least, _)| grade < least) {
                best = Some((grade, number));
            }
        }
        Ok(self.parents.swap_remove(best.map_or(0, |(_, number)| number)))
    }
}

fn instructions(program: &Program) -> u32 {
    program.events().map(|event| event.instructions).sum()
}
