//! C1: the classes that detectors assign to the synthetic streams.

use anyhow::Result;
use bufpool_policies::PageId;
use bufpool_policies::detect::{Amp, AmpOptions, Class, Dear, DearOptions, Detector, Pcc};

use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::streams::{self, Advice};
use crate::trace::Item;

/// The streams that stand in for the paper's lost ones, and their true classes. Stream f is left out because
/// it is too close to a threshold.
const STREAMS: [(&str, Class); 11] = [
    ("a", Class::Temporal),
    ("a'", Class::Temporal),
    ("b", Class::Looping),
    ("c", Class::Looping),
    ("d", Class::Looping),
    ("e", Class::Other),
    ("f'", Class::Temporal),
    ("g", Class::OneShot),
    ("h", Class::Looping),
    ("i", Class::Looping),
    ("j", Class::Other),
];

fn blocks(name: &str, seed: u64) -> Vec<PageId> {
    let items = streams::items(name, &[], Advice::None, seed);
    let block = |item| match item {
        Item::Access(reference) => Some(PageId(reference.block)),
        Item::Directive(_) => None,
    };
    items.into_iter().filter_map(block).collect()
}

/// The streams to which `class_of` assigns a wrong class.
fn wrong(seed: u64, class_of: impl Fn(&[PageId]) -> Class) -> Vec<&'static str> {
    let is_wrong = |(name, truth): &(&'static str, Class)| class_of(&blocks(name, seed)) != *truth;
    STREAMS.iter().filter(|stream| is_wrong(stream)).map(|(name, _)| *name).collect()
}

pub(super) fn classes(context: &Context) -> Result<Vec<Finding>> {
    fn watch<D: Detector>(mut detector: D, blocks: &[PageId]) -> Class {
        blocks.iter().for_each(|block| detector.access(*block));
        detector.class()
    }
    let finding = |detector: &str, published: &str, wrong: &[&str], verdict| Finding {
        id: "C1",
        what: format!("streams a to j that {detector} calls something else than they are"),
        published: published.to_owned(),
        ours: if wrong.is_empty() { "none".to_owned() } else { wrong.join(" ") },
        tolerance: "the streams are stand-ins".to_owned(),
        verdict,
    };
    let amp = wrong(context.seed, |blocks| watch(Amp::new(AmpOptions::for_frames(1000)), blocks));
    let dear = wrong(context.seed, |blocks| {
        watch(Dear::new(DearOptions { period: blocks.len() / 2, groups: 10 }), blocks)
    });
    let pcc = wrong(context.seed, |blocks| watch(Pcc::new(), blocks));
    let amp_verdict = Verdict::of(amp.is_empty(), "see the streams");
    let dear_verdict = match dear.len() {
        2 => Verdict::Reproduced,
        1..=5 => Verdict::SameOrder("the paper's streams are lost, and these are stand-ins".to_owned()),
        _ => Verdict::NotReproduced("see the streams".to_owned()),
    };
    // The paper's third failure is the linear stream f; the Zipf stream f' stands for it here.
    let pcc_fails = ["a", "e", "f'"].iter().all(|name| pcc.contains(name));
    Ok(vec![
        finding("AMP", "none", &amp, amp_verdict),
        finding("DEAR", "two", &dear, dear_verdict),
        finding(
            "PCC",
            "three, the most clustered one among them",
            &pcc,
            Verdict::of(pcc_fails, "see the streams"),
        ),
    ])
}
