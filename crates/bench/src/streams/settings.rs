//! Parameters of a stream, and their values.

use std::{error, fmt, io};

/// A number that shapes a stream.
#[derive(Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its default value.
    pub default: f64,
    /// Smallest value allowed.
    pub min: f64,
    /// Largest value allowed.
    pub max: f64,
    /// Whether only whole numbers are allowed.
    pub whole: bool,
    /// What it means.
    pub about: &'static str,
}

impl Parameter {
    /// A whole number of at least 1 and at most 2^40.
    pub(super) const fn count(name: &'static str, default: u64, about: &'static str) -> Self {
        Self { name, default: default as f64, min: 1.0, max: (1_u64 << 40) as f64, whole: true, about }
    }

    /// A number in 0..=1.
    pub(super) const fn share(name: &'static str, default: f64, about: &'static str) -> Self {
        Self { name, default, min: 0.0, max: 1.0, whole: false, about }
    }

    /// An exponent in 0..=10.
    pub(super) const fn exponent(name: &'static str, default: f64, about: &'static str) -> Self {
        Self { name, default, min: 0.0, max: 10.0, whole: false, about }
    }

    fn allows(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value) && !(self.whole && value.fract() != 0.0)
    }

    fn range(&self) -> String {
        let kind = if self.whole { "a whole number" } else { "a number" };
        format!("{kind} in {}..={}", self.min, self.max)
    }
}

/// A value for each parameter of one stream.
#[derive(Clone, Debug)]
pub struct Settings {
    stream: &'static str,
    parameters: &'static [Parameter],
    /// In the order of `parameters`.
    values: Vec<f64>,
}

impl Settings {
    /// The default values, for the stream of that name.
    pub(super) fn new(stream: &'static str, parameters: &'static [Parameter]) -> Self {
        Self { stream, parameters, values: parameters.iter().map(|parameter| parameter.default).collect() }
    }

    /// Sets a parameter from `key=value`.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, or the value is no number in its range. Nothing is changed then.
    pub fn set(&mut self, assignment: &str) -> Result<(), SettingError> {
        let wrong = |expected: String| SettingError { assignment: assignment.to_owned(), expected };
        let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("key=value".to_owned()))?;
        let at = self.position(key).ok_or_else(|| wrong(self.keys()))?;
        let parameter = &self.parameters[at];
        let number = value.parse().ok().filter(|&number| parameter.allows(number));
        self.values[at] = number.ok_or_else(|| wrong(parameter.range()))?;
        Ok(())
    }

    /// The value of a parameter that is a whole number.
    ///
    /// # Panics
    ///
    /// If the stream has no such parameter, or it is not a whole number.
    pub fn count(&self, key: &str) -> u64 {
        let at = self.position(key).expect("a parameter of the stream");
        assert!(self.parameters[at].whole, "{key} is not a whole number");
        self.values[at] as u64
    }

    /// As [`count`](Self::count), for a count of items that the stream keeps in memory, each of them a `T`.
    ///
    /// # Errors
    ///
    /// As those of [`room`](Self::room).
    pub(super) fn kept<T>(&self, key: &str) -> io::Result<u64> {
        let count = self.count(key);
        self.room(key, count, size_of::<T>())?;
        Ok(count)
    }

    /// Checks that there is room in memory for `items` of `item_bytes` each, which the value of the parameter
    /// `key` asks for.
    ///
    /// # Errors
    ///
    /// An [`io::Error`] that holds a [`SettingError`], if there is no room.
    pub(super) fn room(&self, key: &str, items: u64, item_bytes: usize) -> io::Result<()> {
        let bytes = items.checked_mul(item_bytes as u64).and_then(|bytes| usize::try_from(bytes).ok());
        if bytes.is_some_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok()) {
            return Ok(());
        }
        let assignment = format!("{key}={}", self.count(key));
        let expected = format!("less, as {items} times {item_bytes} bytes of memory are not to be had");
        Err(io::Error::new(io::ErrorKind::OutOfMemory, SettingError { assignment, expected }))
    }

    /// The value of a parameter.
    ///
    /// # Panics
    ///
    /// If the stream has no such parameter.
    pub fn real(&self, key: &str) -> f64 {
        self.values[self.position(key).expect("a parameter of the stream")]
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name == key)
    }

    fn keys(&self) -> String {
        let keys: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
        match keys[..] {
            [] => format!("nothing, `{}` has no parameters", self.stream),
            _ => format!("one of the keys {}", keys.join(", ")),
        }
    }
}

/// A setting that does not fit the stream, or for which there is not enough memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingError {
    assignment: String,
    expected: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--set {}: expected {}", self.assignment, self.expected)
    }
}

impl error::Error for SettingError {}

#[cfg(test)]
mod tests {
    use crate::streams::find;

    #[test]
    fn settings_start_with_defaults_and_refuse_what_does_not_fit() {
        let mut settings = find("zipf").unwrap().settings();
        settings.set("blocks=50").unwrap();
        settings.set("alpha=0.5").unwrap();
        assert_eq!((settings.count("blocks"), settings.real("alpha")), (50, 0.5));
        for (assignment, expected) in [
            ("blocks", "expected key=value"),
            ("size=3", "one of the keys blocks, accesses, alpha"),
            ("blocks=0", "a whole number in 1..="),
            ("blocks=1.5", "a whole number"),
            ("blocks=many", "a whole number"),
            ("alpha=NaN", "a number in 0..=10"),
            ("alpha=-1", "a number in 0..=10"),
        ] {
            let message = settings.set(assignment).unwrap_err().to_string();
            assert!(message.contains(expected), "{assignment}: {message}");
        }
        assert_eq!((settings.count("blocks"), settings.real("alpha")), (50, 0.5));
    }
}
