//! Plans of reads ahead, and whose turn it is to carry them out.

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::state::plans::{PlansWaiting, RUNS_ENOUGH};
use crate::sync::Mutex;

/// A reader makes plans while as many transfers are in flight as let it leave them to a completion, and one
/// of these completes. The plans are carried out.
#[test]
fn plans_are_carried_out_by_their_maker_or_the_next_completion() {
    fn carry_out(plans: &PlansWaiting, policy: &Mutex<u32>) {
        if plans.are_any() {
            let mut made = policy.lock();
            plans.take();
            *made = 0;
        }
    }
    model(|| {
        let (plans, policy) = (Arc::new(PlansWaiting::new()), Arc::new(Mutex::new(0)));
        (0..RUNS_ENOUGH).for_each(|_| plans.begin_run());
        let completion = {
            let (plans, policy) = (Arc::clone(&plans), Arc::clone(&policy));
            thread::spawn(move || {
                plans.end_run();
                carry_out(&plans, &policy);
            })
        };
        {
            let mut made = policy.lock();
            *made += 1;
            plans.note();
        }
        if plans.are_due() {
            carry_out(&plans, &policy);
        }
        completion.join().unwrap();
        assert!(!plans.are_any() && *policy.lock() == 0, "nobody's turn");
    });
}
