//! Names for what streams do: for reports, and to keep pages of scans out of a tier. No victim depends on
//! them.

use super::intervals::Classes;
use super::streams::Stream;
use crate::detect::Class;

/// Evidence on which a stream is labelled, in pages: as much as AMP asks for.
const LABEL_PAGES: f32 = 16.0;
/// The share of pages used again below which a stream is a one-shot scan.
const ONE_SHOT_SHARE: f32 = 1.0 / 16.0;
/// How much more a page must be worth at one age than at another for the order to have a name.
const LABEL_RATIO: f32 = 1.5;

/// Names what the stream's classes have learned.
#[cold]
pub(crate) fn label(stream: &mut Stream, classes: &Classes) {
    let evidence = classes.evidence(stream.classes());
    if evidence.pages < LABEL_PAGES {
        return;
    }
    let class = classes.richest(stream.classes());
    let [young, old] = classes.young_and_old(class);
    let label = if evidence.reused < ONE_SHOT_SHARE * evidence.pages {
        Class::OneShot
    } else if old > LABEL_RATIO * young {
        Class::Looping
    } else if young > LABEL_RATIO * old {
        Class::Temporal
    } else {
        Class::Probabilistic
    };
    stream.set_label(label);
}
