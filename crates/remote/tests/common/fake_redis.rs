//! A server that takes Redis' commands, and answers what nobody expects.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// Bytes that are no answer.
    Garbage,
    /// An answer of another kind.
    OtherKind,
    /// The begin of an answer, and no more.
    Half,
    /// The begin of an answer, and then the end of the connection.
    HalfAndClosed,
    /// Nothing, ever.
    Nothing,
    /// The connection ends at once.
    Closed,
    /// The begin of an answer of more parts than there is memory for.
    Endless,
    /// A page's copy cut short.
    Short,
    /// The copy of a page that was kept before.
    OtherPage,
    /// A copy of which one byte is another.
    OtherBytes,
    /// Errors.
    Refusal,
    /// It is of a version without the commands that are needed.
    TooOld,
    /// What is expected, but that the user may not ask what the server is.
    InfoRefused,
    /// What is expected, but that what the server is comes as a number.
    InfoNumber,
}

impl Answers {
    /// Those of a server that has no page.
    pub const MISSES: [Self; 12] = [
        Self::Garbage,
        Self::OtherKind,
        Self::Half,
        Self::HalfAndClosed,
        Self::Nothing,
        Self::Closed,
        Self::Endless,
        Self::Short,
        Self::OtherPage,
        Self::OtherBytes,
        Self::Refusal,
        Self::TooOld,
    ];
}

/// On a free port. Its threads end with the test's process.
pub struct FakeServer {
    port: u16,
    connections: Arc<AtomicU64>,
}

impl FakeServer {
    pub fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&connections);
        let kept = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, answers, &kept));
            }
        });
        Self { port, connections }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers commands until the client goes, or the answer says so.
fn serve(mut stream: TcpStream, answers: Answers, kept: &Mutex<Vec<Vec<u8>>>) -> Option<()> {
    if answers == Answers::Closed {
        return None;
    }
    stream.set_nodelay(true).ok()?;
    let mut commands = BufReader::new(stream.try_clone().ok()?);
    loop {
        let words = command(&mut commands)?;
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let version = if answers == Answers::TooOld { "6.0.16" } else { "7.0.15" };
        let answer = match (name.as_str(), answers) {
            ("CLIENT", _) => b"+OK\r\n".to_vec(),
            ("INFO", Answers::InfoRefused) => b"-NOPERM this user may not run INFO\r\n".to_vec(),
            ("INFO", Answers::InfoNumber) => b":7\r\n".to_vec(),
            ("INFO", _) => bulk(format!("redis_version:{version}\r\n").as_bytes()),
            (_, Answers::Garbage) => b"\0\x7f{}\r\nNo command\r\n".to_vec(),
            (_, Answers::OtherKind) => b"*2\r\n:1\r\n+OK\r\n".to_vec(),
            (_, Answers::Half) => b"$4136\r\nhalf".to_vec(),
            (_, Answers::HalfAndClosed) => {
                let _ = stream.write_all(b"$4136\r\nhalf");
                return None;
            }
            (_, Answers::Nothing) => Vec::new(),
            (_, Answers::Endless) => b"*2147483647\r\n:1\r\n".to_vec(),
            (_, Answers::Refusal) => b"-NOPERM this user has no permissions\r\n".to_vec(),
            ("SET", _) => {
                kept.lock().push(words[2].clone());
                b"+OK\r\n".to_vec()
            }
            (_, Answers::Short) => bulk(&[7; 100]),
            (_, Answers::OtherBytes) => {
                let mut copy = kept_copy(&words[1], &kept.lock(), true);
                copy.iter_mut().last().into_iter().for_each(|byte| *byte ^= 1);
                bulk(&copy)
            }
            ("GETDEL" | "GETEX", Answers::InfoRefused | Answers::InfoNumber) => {
                match kept_copy(&words[1], &kept.lock(), true) {
                    copy if copy.is_empty() => b"$-1\r\n".to_vec(),
                    copy => bulk(&copy),
                }
            }
            (_, Answers::OtherPage) => bulk(&kept_copy(&words[1], &kept.lock(), false)),
            _ => b"$-1\r\n".to_vec(),
        };
        stream.write_all(&answer).ok()?;
    }
}

/// A copy of the page that a key is of, or of another one; of no bytes if there is none.
fn kept_copy(key: &[u8], kept: &[Vec<u8>], is_same: bool) -> Vec<u8> {
    let key = String::from_utf8_lossy(key);
    let number = key.split(':').nth(2).and_then(|number| u64::from_str_radix(number, 16).ok()).unwrap();
    let found = kept.iter().find(|copy| (copy[8..16] == number.to_le_bytes()) == is_same);
    found.cloned().unwrap_or_default()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut answer = format!("${}\r\n", bytes.len()).into_bytes();
    answer.extend_from_slice(bytes);
    answer.extend_from_slice(b"\r\n");
    answer
}

fn command(from: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let words = number(from, '*')?;
    (0..words)
        .map(|_| {
            let mut word = vec![0; number(from, '$')? + 2];
            from.read_exact(&mut word).ok()?;
            word.truncate(word.len() - 2);
            Some(word)
        })
        .collect()
}

fn number(from: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(sign)?.parse().ok()
}
