//! Progress bars of long steps, on standard error, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts `total` things called `unit`, labelled `what`.
///
/// Dropping it leaves it on the screen; call `finish_and_clear` when the step is done.
pub fn bar(what: impl Into<String>, total: u64, unit: &str) -> ProgressBar {
    let template = format!("{{msg:24!}} {{bar:30}} {{pos}}/{{len}} {unit} {{elapsed}} (eta {{eta}})");
    ProgressBar::new(total).with_style(style(&template)).with_message(what.into())
}

/// A bar over bytes of an input, labelled `what`; `total_bytes` 0 means that the length is not known.
pub fn bytes_bar(what: impl Into<String>, total_bytes: u64) -> ProgressBar {
    let bar = if total_bytes == 0 {
        ProgressBar::new_spinner().with_style(style("{msg:24!} {bytes} {elapsed}"))
    } else {
        let template = "{msg:24!} {bar:30} {bytes}/{total_bytes} {elapsed} (eta {eta})";
        ProgressBar::new(total_bytes).with_style(style(template))
    };
    bar.with_message(what.into())
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the templates of this file are well formed")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_well_formed() {
        let bars = [bar("sim", 10, "runs"), bytes_bar("trace", 10), bytes_bar("pipe", 0)];
        for bar in bars {
            bar.inc(3);
            assert_eq!(bar.position(), 3);
            bar.finish_and_clear();
        }
    }
}
