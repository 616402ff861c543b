//! Goal: what is refused is refused where the defect is, in words that say what to do; what is let through
//! means what the table of instructions says, and its text and its bytes are the same program.
//! Method: tables of texts; events run on a machine without a pool; random bytes.

use proptest::prelude::*;

use super::{
    Program,
    code::Standard,
    run::{About, Cause, Ended, Machine},
};
use crate::{
    ids::{Access, ContextId, FileId, FrameId, PageId, TenantId},
    list::NIL,
    manager::{Incident, Look, Wish},
    random::SplitMix64,
};

/// A program whose event `replace` begins with `body`; slots a b d (ints), v h (pages), q r (queues), g
/// (ghosts).
fn with_body(items: &str, body: &str) -> String {
    format!(
        "policy t {{\n queue q, r\n ghost g\n page h\n int a = 7\n int b = 2\n const k = 5\n{items}\n \
         event initial {{ ret }}\n event fault(p) {{ enqt q, p ; ret }}\n event replace(c) {{\n{body}\n ret c }}\n}}"
    )
}

/// The line of `body` in [`with_body`] without items.
const BODY_LINE: u32 = 12;

/// Frames 3, 4 and 5 are in the queue q, head first; 9 is in none.
fn machine(program: &Program) -> Machine {
    let mut machine = Machine::new(program.code(), program.locals_max(), 4, SplitMix64::new(1));
    for frame in [3, 4, 5] {
        machine.pages.enter(FrameId(frame), PageId(u64::from(frame) + 100));
        machine.pages.push_tail(0, frame);
    }
    machine.pages.enter(FrameId(9), PageId(109));
    machine
}

fn run(program: &Program, machine: &mut Machine, fuel: u64, look: Option<&mut dyn Look>) -> Ended {
    let (file, tenant, context) = (FileId(0), TenantId(53), ContextId(52));
    let missing = Access { page: PageId(50), file, tenant, context, creates: false };
    let about = About { parameter: 9, cause: Cause::Question(Some(&missing)) };
    let replace = program.standard(Standard::Replace).unwrap();
    let ended = machine.run(program.steps(), replace, about, fuel, look);
    machine.check_invariants();
    ended
}

/// What `body` leaves in the int `a`.
fn result(body: &str) -> i64 {
    let program = Program::parse(&with_body("", body)).unwrap_or_else(|error| panic!("{body}: {error}"));
    let mut machine = machine(&program);
    assert!(run(&program, &mut machine, 4096, None).answer.is_ok(), "{body}");
    let a = program.code().slots.iter().position(|slot| slot.name == "a").unwrap();
    machine.int_slot(a)
}

#[test]
fn arithmetic_is_that_of_64_bits() {
    let (min, max) = (i64::MIN, i64::MAX);
    for (op, x, y, expected) in [
        ("add", max, 1, min),
        ("sub", min, 1, max),
        ("mul", 1_i64 << 40, 1_i64 << 40, 0),
        ("div", -7, 2, -3),
        ("div", min, -1, min),
        ("rem", -7, 2, -1),
        ("rem", min, -1, 0),
        ("min", -3, 2, -3),
        ("max", -3, 2, 2),
        ("and", 12, 10, 8),
        ("or", 12, 10, 14),
        ("xor", 12, 10, 6),
        ("shl", 1, 65, 2),
        ("shl", 3, -1, min),
        ("shr", -8, 1, -4),
        ("shr", -8, 64, -8),
        ("lt", -1, 0, 1),
        ("lt", 0, 0, 0),
        ("le", 0, 0, 1),
        ("eq", 4, 4, 1),
        ("ne", 4, 4, 0),
    ] {
        assert_eq!(result(&format!("ldc x, {x} ; ldc y, {y} ; {op} a, x, y")), expected, "{op} {x} {y}");
    }
    assert_eq!(result("not a, b"), !2);
    assert_eq!(result("ldc a, -0x8000000000000000"), min);
}

#[test]
fn instructions_do_what_the_table_says() {
    let checked =
        |give: &str, then: &str| format!("{give} ; isnil t, v ; jnz t, end\n {then}\n end: ret c\n");
    let three = "meta a, v ; block a, v";
    for (body, expected) in [
        ("len a, q".to_owned(), 3),
        ("empty a, q".to_owned(), 0),
        ("empty a, r".to_owned(), 1),
        ("inq a, c, q".to_owned(), 0),
        (checked("peekh v, q", three), 103),
        (checked("peekt v, q", three), 105),
        (checked("deqh v, q", "inq a, v, q"), 0),
        (checked("deqt v, q", "len a, q"), 2),
        (checked("deqh v, r", three), 7),
        (checked("peekh v, q", &checked("next v, v", three).replace("end", "fin")), 104),
        (checked("peekt v, q", &checked("prev v, v", three).replace("end", "fin")), 104),
        (checked("peekt v, q", "next v, v ; isnil a, v"), 1),
        ("next v, c ; isnil a, v".to_owned(), 1),
        ("copy h, c ; block a, h".to_owned(), 109),
        ("copy v, c ; same a, v, c".to_owned(), 1),
        ("enqh q, c ; ".to_owned() + &checked("peekh v, q", three), 109),
        ("enqt q, c ; ".to_owned() + &checked("peekt v, q", three), 109),
        ("enqt q, c ; enqt r, c ; len a, q".to_owned(), 3),
        ("enqt q, c ; unlink c ; unlink c ; len a, q".to_owned(), 3),
        ("ref a, c".to_owned(), 0),
        ("setref c, 1 ; ref a, c".to_owned(), 1),
        ("setref c, 1 ; setref c, 0 ; ref a, c".to_owned(), 0),
        ("meta a, c".to_owned(), 0),
        ("setmeta c, k ; meta a, c".to_owned(), 5),
        ("prio a, c".to_owned(), 0),
        ("arg a, missing".to_owned(), 50),
        ("arg a, candidate".to_owned(), 109),
        ("arg a, context".to_owned(), 52),
        ("arg a, tenant".to_owned(), 53),
        ("now a".to_owned(), 0),
        ("rand x ; ldc y, 63 ; shr a, x, y".to_owned(), 0),
        ("pinned a, c".to_owned(), 0),
        ("mod a, c".to_owned(), 0),
        ("ldc x, 104 ; ".to_owned() + &checked("find v, x", three), 104),
        ("ldc x, 106 ; find v, x ; isnil a, v".to_owned(), 1),
        ("ldc x, -1 ; find v, x ; isnil a, v".to_owned(), 1),
        ("ldc x, 0x7fffffffffffffff ; find v, x ; isnil a, v".to_owned(), 1),
        ("recall a, g, c".to_owned(), 0),
        ("remember g, c ; recall a, g, c".to_owned(), 1),
        ("remember g, c ; recall a, g, c ; recall a, g, c".to_owned(), 0),
        ("remember g, c ; remember g, c ; ghosts a, g".to_owned(), 1),
        ("remember g, c ; ldc x, -4 ; trim g, x ; ghosts a, g".to_owned(), 0),
        ("jz b, L ; ldc a, 1\n L: ".to_owned(), 1),
        ("jnz b, L ; ldc a, 1\n L: ".to_owned(), 7),
        ("isnil a, h".to_owned(), 1),
    ] {
        assert_eq!(result(&body), expected, "{body}");
    }
}

#[test]
fn a_slot_of_the_program_loses_a_page_that_leaves_and_keeps_others() {
    let program = Program::parse(&with_body("page i", "copy h, c ; copy i, c")).unwrap();
    let mut machine = machine(&program);
    run(&program, &mut machine, 4096, None).answer.unwrap();
    machine.gone(FrameId(5));
    machine.check_invariants();
    let slots = || (0..program.code().slots.len()).filter(|slot| program.code().slots[*slot].name.len() == 1);
    let held = |machine: &Machine| slots().filter(|slot| machine.page_slot(*slot) == 9).count();
    assert_eq!(held(&machine), 2);
    machine.gone(FrameId(9));
    machine.check_invariants();
    assert_eq!(held(&machine), 0);
}

#[test]
fn events_of_the_programs_own_have_slots_of_their_own() {
    let own = "event twice(w) { ldc x, 1 ; meta y, w ; add y, y, x ; setmeta w, y ; call deeper ; ret }\n \
               event deeper { ldc x, 100 ; add b, b, x ; ret }";
    let body = "ldc x, 10 ; call twice, c ; call twice, c ; meta y, c ; add a, x, y ; add a, a, b";
    let program = Program::parse(&with_body(own, body)).unwrap();
    let mut machine = machine(&program);
    let ended = run(&program, &mut machine, 4096, None);
    let a = program.code().slots.iter().position(|slot| slot.name == "a").unwrap();
    assert_eq!(machine.int_slot(a), 10 + 2 + 202, "caller's x, twice's word, deeper's two hundred and b");
    assert_eq!(
        Some(ended.steps),
        program.steps_max("replace").map(u64::from),
        "straight code takes its bound"
    );
}

/// Frame 3 is busy, 4 modified, and two frames are left.
struct Seen;

impl Look for Seen {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        frame == FrameId(3)
    }

    fn is_modified(&mut self, frame: FrameId) -> bool {
        frame == FrameId(4)
    }

    fn frames_left(&self) -> u32 {
        2
    }
}

/// What a privileged program does with its page, and what the driver is asked for.
#[test]
fn privileged_programs_ask_for_frames_and_release_pages() {
    let text = "policy p privileged {\n queue q\n page h\n int a\n int b = 5\n event initial { ret }\n \
                event fault(p) { ret p }\n event replace(c) {\n request a, b\n peekh v, q ; isnil t, v ; jnz t, none\n \
                pinned t, v ; add a, a, t\n copy h, v ; flush v ; setmod v ; release v\n isnil t, h ; add a, a, t\n \
                none: ret c }\n}";
    let program = Program::parse(text).unwrap_err();
    assert!(program.to_string().contains("`c`, which may be nil"), "after `release` any page may: {program}");
    let program = Program::parse(&text.replace("none: ret c", "peekh v, q ; isnil t, v ; jnz t, none\n ret v\n none: jmp L\n L: peekt v, q ; isnil t, v ; jnz t, M\n ret v\n M: peekt v, q ; jmp L")).unwrap();
    let mut machine = machine(&program);
    let ended = run(&program, &mut machine, 4096, Some(&mut Seen));
    assert_eq!(ended.answer, Ok(4), "the page released is in no queue");
    let a = program.code().slots.iter().position(|slot| slot.name == "a").unwrap();
    assert_eq!(machine.int_slot(a), 2 + 1 + 1, "frames left, pinned, nil after its release");
    let (frame, page) = (FrameId(3), PageId(103));
    let wishes: Vec<_> = std::iter::from_fn(|| machine.take_wish()).collect();
    let expected =
        [Wish::Flush { frame, page }, Wish::SetModified { frame, page }, Wish::Release { frame, page }];
    assert_eq!(wishes, expected);
}

#[test]
fn wishes_and_ghosts_are_bounded() {
    let body = "ldc x, 100\n L: flush c ; sub x, x, k ; ldc y, 4 ; add x, x, y ; jnz x, L";
    let program = Program::parse(&with_body("", body)).unwrap();
    let mut machine = machine(&program);
    run(&program, &mut machine, 4096, None).answer.unwrap();
    assert_eq!(std::iter::from_fn(|| machine.take_wish()).count(), crate::WISHES_MAX);
    let all = "peekh v, q\n L: isnil t, v ; jnz t, end\n remember g, v ; next v, v ; jmp L\n \
               end: remember g, c ; ghosts a, g";
    assert_eq!(result(all), 4);
    let program = Program::parse(&with_body("", all)).unwrap();
    let mut machine = Machine::new(program.code(), program.locals_max(), 2, SplitMix64::new(1));
    for frame in 0..9 {
        machine.pages.enter(FrameId(frame), PageId(u64::from(frame)));
        machine.pages.push_tail(0, frame);
    }
    machine.pages.enter(FrameId(9), PageId(109));
    run(&program, &mut machine, 4096, None).answer.unwrap();
    let a = program.code().slots.iter().position(|slot| slot.name == "a").unwrap();
    assert_eq!(machine.int_slot(a), 2);
}

/// However many there are: an instruction takes a bounded time.
#[test]
fn an_instruction_forgets_64_ghosts_at_most() {
    let remember =
        "peekh v, q\n L: isnil t, v ; jnz t, end\n remember g, v ; next v, v ; jmp L\n end: ldc x, 10\n";
    for (trims, left) in [(0, 100), (1, 36), (2, 10)] {
        let body = format!("{remember} {} ghosts a, g", "trim g, x ; ".repeat(trims));
        let program = Program::parse(&with_body("", &body)).unwrap();
        let mut machine = Machine::new(program.code(), program.locals_max(), 200, SplitMix64::new(1));
        for frame in 0..100 {
            machine.pages.enter(FrameId(frame), PageId(u64::from(frame)));
            machine.pages.push_tail(0, frame);
        }
        run(&program, &mut machine, 4096, None).answer.unwrap();
        let a = program.code().slots.iter().position(|slot| slot.name == "a").unwrap();
        assert_eq!(machine.int_slot(a), left, "{trims} trims");
    }
}

#[test]
fn a_run_that_takes_too_long_stops_at_a_loop_a_call_or_a_find() {
    let own = "event own { ret }";
    for (body, completes_with) in [
        // loop, sub, jnz for each of five turns, one for ldc, and ret.
        ("ldc x, 5 ; ldc y, 1\n L: sub x, x, y ; jnz x, L", 2 + 15 + 1),
        // Straight code is charged and not stopped.
        ("ldc x, 5 ; ldc x, 6 ; ldc x, 7", 4),
        ("call own ; call own", 5),
        ("find v, a ; find v, a", 9),
    ] {
        let program = Program::parse(&with_body(own, body)).unwrap();
        let mut least = None;
        let mut last: Option<(u64, Result<u32, Incident>)> = None;
        for fuel in 0..completes_with + 3 {
            let mut machine = machine(&program);
            let ended = run(&program, &mut machine, fuel, None);
            if let Some((steps, Ok(page))) = last {
                assert_eq!((ended.steps, ended.answer), (steps, Ok(page)), "more fuel changed {body}");
            }
            assert!(ended.answer.is_ok() || ended.answer == Err(Incident::OutOfFuel));
            assert!(ended.answer.is_ok() || ended.steps <= fuel + 3, "{body} ran on");
            if ended.answer.is_ok() && least.is_none() {
                least = Some(fuel);
            }
            last = Some((ended.steps, ended.answer));
        }
        assert_eq!(last.map(|(steps, _)| steps), Some(completes_with), "{body}");
        assert!(least.is_some_and(|least| least <= completes_with), "{body}");
    }
    let endless = Program::parse(&with_body("", "L: jmp L\n M: jmp M")).unwrap();
    let ended = run(&endless, &mut machine(&endless), 1000, None);
    assert_eq!((ended.steps, ended.answer), (1000, Err(Incident::OutOfFuel)));
    let fault = Program::parse(&with_body("", "ldc x, 0 ; ldc a, 3 ; div b, a, x ; ldc a, 4")).unwrap();
    let mut machine = machine(&fault);
    let ended = run(&fault, &mut machine, 1000, None);
    assert_eq!((ended.steps, ended.answer), (3, Err(Incident::DivisionByZero)));
    assert_eq!(machine.page_slot(0), NIL);
}

/// The first page of the queue goes round, and is in a slot of the program or of the event.
#[test]
fn a_run_that_stops_in_a_loop_has_done_what_is_before_it_and_no_more() {
    let turn = |slot: &str| {
        format!(
            "ldc x, 9 ; ldc y, 1\n L: peekh {slot}, q ; isnil t, {slot} ; jnz t, end\n \
             enqt q, {slot} ; sub x, x, y ; jnz x, L\n end: "
        )
    };
    let whiles = "ldc x, 9 ; ldc y, 1 ; ldc z, 0\n \
                  L: lt t, z, x ; jz t, end\n peekh h, q ; isnil t, h ; jnz t, end\n \
                  enqt q, h ; sub x, x, y ; jmp L\n end: ";
    let ahead = "ldc x, 9 ; ldc y, 1\n peekt h, q\n L: isnil t, h ; jnz t, end\n \
                 enqt q, h ; sub x, x, y ; peekh h, q ; jnz x, L\n end: ";
    // Instructions before the first `loop`, those of a turn, turns, and those behind the last of them.
    for (body, before, length, behind) in
        [(turn("h"), 2, 7, 1), (turn("v"), 2, 7, 1), (whiles.into(), 3, 9, 4), (ahead.into(), 3, 7, 1)]
    {
        let program = Program::parse(&with_body("", &body)).unwrap();
        let whole = before + 9 * length + behind;
        for fuel in 0..whole + 2 {
            let mut machine = machine(&program);
            let ended = run(&program, &mut machine, fuel, None);
            let turns = if fuel > before { (fuel - before).div_ceil(length).min(10) } else { 0 };
            let is_stopped = before + turns * length < whole && turns < 9 + u64::from(behind == 4);
            let expected = if is_stopped { before + turns * length } else { whole };
            assert_eq!(ended.steps, expected, "{fuel} for {body}");
            assert_eq!(ended.answer.is_err(), is_stopped, "{fuel} for {body}");
            let order: Vec<u32> = std::iter::successors(Some(machine.pages.head(0)), |frame| {
                Some(machine.pages.next(*frame)).filter(|next| *next != NIL)
            })
            .collect();
            let first = if body.contains("peekt") { turns.min(9).saturating_sub(1) } else { turns.min(9) };
            let expected: [u32; 3] = if body.contains("peekt") && turns == 0 {
                [3, 4, 5]
            } else {
                std::array::from_fn(|at| 3 + (first as u32 + at as u32) % 3)
            };
            assert_eq!(order, expected, "{fuel} for {body}");
            if body.contains("h, q") && !body.contains("peekt") {
                let held = if turns == 0 { NIL } else { 3 + (turns.min(9) as u32 - 1) % 3 };
                let slot = program.code().slots.iter().position(|slot| slot.name == "h").unwrap();
                assert_eq!(machine.page_slot(slot), held, "{fuel} for {body}");
            }
        }
    }
}

/// Text, line and column of the defect, and the message.
fn refused(text: &str, place: (u32, u32), message: &str) {
    let error = Program::parse(text).err().unwrap_or_else(|| panic!("not refused:\n{text}"));
    let expected = format!("{}:{}: {message}", place.0, place.1);
    assert_eq!(error.to_string(), expected, "\n{text}");
}

#[test]
fn text_that_is_no_program_is_refused_where_it_begins_not_to_be_one() {
    let items = "`queue`, `ghost`, `page`, `int`, `const`, `event` or `}`";
    let number = "a decimal number, or 0x and hexadecimal digits, from -2^63 to 2^63 - 1";
    for (text, line, column, expected, found) in [
        ("", 1, 1, "`policy` and the name of the program", "the end of the text"),
        ("# only\n\n", 2, 1, "`policy` and the name of the program", "the end of the text"),
        ("policy {", 1, 8, "the name of the program", "`{`"),
        ("policy 3", 1, 8, "the name of the program", "`3`"),
        ("policy a b", 1, 10, "`privileged` or `{`", "`b`"),
        ("policy a {\n que q\n}", 2, 2, items, "`que`"),
        ("policy a {\n queue q,\n}", 3, 1, "the name of a slot", "`}`"),
        ("policy a {\n int x = y\n}", 2, 10, "a number", "`y`"),
        ("policy a {\n const x\n}", 3, 1, "`=` and the value of the constant", "`}`"),
        ("policy a {\n int x = 9223372036854775808\n}", 2, 10, number, "`9223372036854775808`"),
        ("policy a {\n int x = 3z\n}", 2, 10, number, "`3z`"),
        ("policy a {\n int x = -\n}", 2, 10, number, "`-`"),
        ("policy a {\n event e(\n}", 3, 1, "the name of the page that the event is given", "`}`"),
        ("policy a {\n event e(p {", 2, 12, "`)`", "`{`"),
        ("policy a {\n event e p", 2, 10, "`(` or `{`", "`p`"),
        ("policy a {\n event e { ret", 2, 15, "an instruction, a label or `}`", "the end of the text"),
        ("policy a {\n event e { ; }", 2, 12, "an instruction, a label or `}`", "`;`"),
        ("policy a {\n event e { ret p q }", 2, 18, "`,`, `;`, the end of the line or `}`", "`q`"),
        ("policy a {\n event e { ret = }", 2, 16, "an operand, `;`, the end of the line or `}`", "`=`"),
        (
            "policy a {\n event e { add a,\n b }",
            2,
            18,
            "an operand, which is a name or a number",
            "the end of the line",
        ),
        ("policy a {\n queue q\n\n# end\n", 4, 6, items, "the end of the text"),
        ("policy a {\n queue $\n}", 2, 8, "a name, a number or one of `{ } ( ) , ; : = #`", "`$`"),
        (
            "policy a {\n queue q\n queue q\n}",
            3,
            8,
            "a name that no other slot of the program has",
            "`q` again, which line 2 has",
        ),
        (
            "policy a {\n event e { ret }\n event e { ret }\n}",
            3,
            8,
            "one event of each name",
            "`e` again, which line 2 has",
        ),
        ("policy a { event e { L: } }", 1, 25, "an instruction after the label", "`}`"),
        (
            "policy a { event e {\n L: ret\n L: ret } }",
            3,
            2,
            "one label of each name in an event",
            "`L` again, which line 2 has",
        ),
    ] {
        refused(text, (line, column), &format!("expected {expected}, found {found}"));
    }
    let whole = with_body("", "");
    refused(&format!("{whole}\n}}"), (15, 1), "expected nothing after the end of the program, found `}`");
}

/// A body of `replace`, the column of the defect in its first line, and the message.
#[test]
fn every_rule_of_the_verifier_refuses_a_program() {
    let nil = "a page that `isnil` and a jump have shown not to be nil";
    let value = "a slot that has a value on every path to here";
    let unknown = "which nothing in this event gives a value";
    for (body, column, expected, found) in [
        // Operands.
        (
            "add a, b",
            1,
            "`add` with an int slot to write, an int slot, an int slot".into(),
            "2 operands".into(),
        ),
        ("ret a, b", 1, "`ret` alone or `ret` with a page slot".into(), "2 operands".to_owned()),
        ("enqt v, c", 6, "a queue of the program".to_owned(), "`v`".into()),
        ("remember q, c", 10, "a list of ghosts".into(), "`q`, a queue".into()),
        ("len a, g", 8, "a queue".into(), "`g`, a list of ghosts".into()),
        ("add a, b, v", 11, "an int slot".into(), format!("`v`, {unknown}")),
        ("add a, b, 1", 11, "an int slot".into(), "the number `1`".into()),
        ("add a, b, c", 11, "an int slot".into(), "`c`, a page slot".into()),
        ("peekh a, q", 7, "a page slot".into(), "`a`, an int slot".into()),
        ("ldc x, 1 ; peekh x, q", 18, "a page slot".into(), "`x`, an int slot".into()),
        ("ldc k, 1", 5, "an int slot to write".into(), "`k`, a constant".into()),
        ("ldc a, b", 8, "a number".into(), "`b`".into()),
        ("setref c, 2", 11, "`0` or `1`".into(), "the number `2`".into()),
        ("arg a, frame", 8, "one of `missing`, `candidate`, `context`, `tenant`".into(), "`frame`".into()),
        ("jmp L", 5, "a label of this event".into(), "`L`".into()),
        ("call own", 6, "an event of the program".into(), "`own`".into()),
        ("call fault, c", 6, "an event of the program's own".into(), "`fault`".into()),
        // Values and nil.
        ("jz a, L ; ldc x, 1\nL: add a, x, x", 0, value.into(), "`x`, which may have none".into()),
        ("jz a, L ; peekh v, q\nL: isnil a, v", 0, value.into(), "`v`, which may have none".into()),
        ("peekh v, q ; ret v", 18, nil.into(), "`v`, which may be nil".into()),
        ("enqt q, h", 9, nil.into(), "`h`, which may be nil".into()),
        ("isnil t, h ; jz t, L ; unlink h\nL:", 31, nil.into(), "`h`, which may be nil".into()),
        ("isnil t, h ; jnz t, L ; next h, h ; unlink h\nL:", 44, nil.into(), "`h`, which may be nil".into()),
        ("isnil t, h ; ldc t, 1 ; jnz t, L ; unlink h\nL:", 43, nil.into(), "`h`, which may be nil".into()),
        ("same a, h, c", 9, nil.into(), "`h`, which may be nil".into()),
        // Control.
        ("ret", 1, "`ret` with a page in the event `replace`".into(), "`ret` alone".into()),
        (
            "request a, b",
            1,
            "an instruction that a program without `privileged` may use".into(),
            "`request`".into(),
        ),
        (
            "release c",
            1,
            "an instruction that a program without `privileged` may use".into(),
            "`release`".into(),
        ),
    ] {
        // Column 0: the defect is in the second line.
        let (line, column) = match (column, body.find('\n')) {
            (0, Some(_)) => (BODY_LINE + 1, if body.contains("isnil a") { 13 } else { 11 }),
            _ => (BODY_LINE, column),
        };
        refused(&with_body("", body), (line, column), &format!("expected {expected}, found {found}"));
    }
    for unknown in ["loop", "enqueue c"] {
        let error = Program::parse(&with_body("", unknown)).unwrap_err().to_string();
        assert!(error.starts_with("12:1: expected an instruction, one of ret jmp jz"), "{error}");
        assert!(!error.contains(" loop "), "{error}");
    }
}

#[test]
fn rules_between_events_refuse_programs() {
    let own = |text: &str, at: (u32, u32), message: &str| refused(&with_body(text, ""), at, message);
    let line = 8;
    own(
        "event e { ret c }",
        (line, 15),
        "expected a page slot, found `c`, which nothing in this event gives a value",
    );
    own("event e(p) { ret p }", (line, 14), "expected `ret` alone in the event `e`, found `ret` with a page");
    own("event e { }", (line, 11), "expected an instruction, found the end of the event");
    own(
        "event e { ldc x, 1 }",
        (line, 11),
        "expected `ret` or `jmp` as the last instruction of an event, found `ldc`",
    );
    own(
        "event e(q) { ret }",
        (line, 9),
        "expected a name that no other slot of the program or the event has, found `q`",
    );
    own(
        "event e { call e ; ret }",
        (line, 16),
        "expected calls that do not lead back to their own event, found `e -> e`",
    );
    own(
        "event e { call f ; ret } event f { call e ; ret }",
        (line, 41),
        "expected calls that do not lead back to their own event, found `e -> f -> e`",
    );
    own(
        "event e { call f ; ret } event f(p) { ret }",
        (line, 16),
        "expected an event without a parameter, found `f`",
    );
    own(
        "event e(p) { call f, p ; ret } event f { ret }",
        (line, 19),
        "expected an event with a parameter, found `f`",
    );
    own(
        "event access { ret }",
        (line, 7),
        "expected `event access(p)` with a page, found `event access` without a parameter",
    );
    own(
        "event access(p) {\n L: jmp L }",
        (line + 1, 5),
        "expected no loop in the event `access`, found a jump back to here",
    );
    own(
        "event access(p) { call e ; ret } event e { L: jmp L }",
        (line, 19),
        "expected no loop in the event `access`, found a call of `e`, which has one",
    );
    let long = |count: usize| format!("event access(p) {{ {} ret }}", "ldc x, 1 ; ".repeat(count));
    Program::parse(&with_body(&long(31), "")).unwrap();
    own(
        &long(32),
        (line, 7),
        "expected at most 32 instructions in the event `access`, with what it calls, found 33",
    );
    let split = "event access(p) { call e ; call e ; ret } event e { ".to_owned()
        + &"ldc x, 1 ; ".repeat(14)
        + "ret }";
    own(
        &split,
        (line, 7),
        "expected at most 32 instructions in the event `access`, with what it calls, found 33",
    );
    let chain = |depth: usize| {
        let links = (1..depth).map(|at| format!("event e{at} {{ call e{} ; ret }}\n", at + 1));
        links.collect::<String>() + &format!("event e{depth} {{ ret }}\n")
    };
    let called = |depth| Program::parse(&with_body(&chain(depth), "call e1"));
    assert!(called(8).is_ok(), "eight calls are open in the last event");
    assert_eq!(
        called(9).unwrap_err().to_string(),
        format!(
            "{}:6: expected at most 8 calls that are open at a time, found 9 with that of `e1`",
            BODY_LINE + 9
        )
    );
    // The call may have written what was tested.
    let nil = "expected a page that `isnil` and a jump have shown not to be nil, found";
    let call = "isnil t, h ; jnz t, L ; call e ; unlink h\nL:";
    refused(&with_body("event e { ret }", call), (BODY_LINE, 41), &format!("{nil} `h`, which may be nil"));
    let local = "peekh v, q ; isnil a, v ; call e ; jnz a, L ; unlink v\nL:";
    Program::parse(&with_body("event e { ret }", local)).unwrap();
    let writes = with_body("event e { ldc a, 1 ; ret }", local);
    refused(&writes, (BODY_LINE, 54), &format!("{nil} `v`, which may be nil"));
}

#[test]
fn limits_refuse_programs() {
    let names =
        |name: &str, count: usize| (0..count).map(|at| format!("{name}{at}")).collect::<Vec<_>>().join(", ");
    let with = |items: &str| Program::parse(&with_body(items, ""));
    assert!(with(&format!("queue {}", names("x", 30))).is_ok(), "with q and r");
    let error = with(&format!("queue {}", names("x", 31))).unwrap_err().to_string();
    assert!(
        error.starts_with("8:") && error.ends_with("expected at most 32 queues, found `x30`, number 33"),
        "{error}"
    );
    let error = with(&format!("ghost {}", names("x", 4))).unwrap_err().to_string();
    assert!(error.ends_with("expected at most 4 lists of ghosts, found `x3`, number 5"), "{error}");
    let error = with(&format!("page {}", names("x", 250))).unwrap_err().to_string();
    assert!(error.ends_with("expected at most 256 slots, found slot 257"), "{error}");
    // Seven slots of the program, and the parameter.
    let locals = |count: usize| {
        let body = (0..count).map(|at| format!("ldc x{at}, 1\n")).collect::<String>();
        Program::parse(&with_body("", &body))
    };
    assert!(locals(248).is_ok());
    let error = locals(249).unwrap_err().to_string();
    let expected = "at most 256 slots in an event, those of the program included, found `x248`, number 257";
    assert!(error.ends_with(expected), "{error}");
    let events = |count: usize| (0..count).map(|at| format!("event e{at} {{ ret }}\n")).collect::<String>();
    assert!(with(&events(253)).is_ok());
    assert!(
        with(&events(254)).unwrap_err().to_string().contains("expected at most 256 events, found event 257")
    );
    let long = |count: usize| Program::parse(&with_body("", &"ldc x, 1\n".repeat(count)));
    assert!(long(4092).is_ok(), "with four more");
    let error = long(4093).unwrap_err().to_string();
    assert!(
        error.ends_with("expected at most 4096 instructions in a program, found instruction 4097"),
        "{error}"
    );
}

#[test]
fn missing_events_are_missed_at_the_end() {
    let text = "policy a {\n event initial { ret }\n event fault(p) { ret }\n}\n";
    refused(text, (4, 1), "expected the event `replace`, found the end of the program");
    refused("policy a {\n}", (2, 1), "expected the event `initial`, found the end of the program");
}

/// Each of the tests is lost by a jump back of its own, and with it what was known in the whole loop.
#[test]
fn a_loop_with_many_tests_of_pages_and_jumps_back_is_verified() {
    let all = |line: fn(usize) -> String| (0..245).map(line).collect::<String>();
    let tests = all(|at| format!("isnil t{at}, v\n"));
    let jumps = all(|at| format!("jnz y, K{at}\n"));
    let losses = all(|at| format!("K{at}: ldc t{at}, 0 ; jmp H\n"));
    let body = "add y, y, z\n".repeat(2800);
    let replace = |test: &str| {
        format!(
            "policy tangled {{ queue q\n event initial {{ ret }}\n event fault(p) {{ ret }}\n event replace(c) {{\n\
             ldc z, 0 ; peekh v, q\n {tests} H: ldc y, 1\n {body} {jumps} {test}\n ret c\n {losses} }} }}"
        )
    };
    Program::parse(&replace("")).unwrap();
    let error = Program::parse(&replace("jnz t244, none ; ret v\n none: ldc y, 2")).unwrap_err().to_string();
    let expected =
        "expected a page that `isnil` and a jump have shown not to be nil, found `v`, which may be nil";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn a_name_that_is_too_long_is_refused_where_it_stands() {
    let events = "event initial { ret }\n event fault(p) { ret }\n event replace(c) { ret c }";
    let named = |letters: usize| format!("policy {} {{\n {events}\n}}\n", "n".repeat(letters));
    assert!(Program::parse(&named(255)).is_ok());
    let expected = "expected a name of at most 255 letters, digits and `_`, no digit first";
    let found = format!("found `{}...`", "n".repeat(40));
    refused(&named(256), (1, 8), &format!("{expected}, {found}"));
}

/// Code that the assembler would not make.
#[test]
fn bytes_that_no_text_stands_for_are_refused() {
    let program =
        Program::parse(&with_body("", "ldc x, 300 ; ldc y, 301\n L: sub x, x, y ; jnz x, L")).unwrap();
    let bytes = program.to_bytes();
    assert_eq!(Program::from_bytes(&bytes).unwrap().to_bytes(), bytes);
    for length in 0..bytes.len() {
        let error = Program::from_bytes(&bytes[..length]).unwrap_err();
        assert!(error.to_string().starts_with("byte "), "{error}");
    }
    // The instructions of `replace` are the last: ldc, ldc, loop, sub, jnz, ret.
    let first = bytes.len() - 6 * 4;
    let (loop_at, jnz) = (3 + 2, bytes[first + 16]);
    for (offset, replaced, message) in [
        (0, [0xff, 0, 0, 0], "expected an instruction"),
        (8, [0, 1, 0, 0], "expected an instruction, an opcode and three bytes that are 0"),
        (0, [bytes[first], bytes[first + 1], 0, 1], "constants numbered by their first use"),
        (0, [bytes[first], bytes[first + 1], 0, 9], "one of 2 constants, found number 9"),
        (0, [bytes[first], 200, 0, 0], "expected an int slot, found number 200"),
        (
            4,
            [jnz, bytes[first + 17], 0, loop_at + 1],
            "expected a jump to `loop`, found one to the instruction after it",
        ),
        (
            16,
            [bytes[first + 16], bytes[first + 17], 0, loop_at - 1],
            "expected `loop` where a jump leads back to",
        ),
        (16, [jnz, bytes[first + 17], 0, loop_at + 3], "expected a jump back to each `loop`"),
        (16, [jnz, bytes[first + 17], 0, 99], "expected an instruction of the same event"),
    ] {
        let mut bytes = bytes.clone();
        bytes[first + offset..first + offset + 4].copy_from_slice(&replaced);
        let error = Program::from_bytes(&bytes).map(|program| program.to_text()).unwrap_err().to_string();
        assert!(error.contains(message), "{offset} {replaced:?}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z{}(),;:=#$ \n0-9-]{0,80}") {
        let _ = Program::parse(&text);
    }

    /// Bytes of a valid program with a few of them changed: most of it remains, so the verifier sees it.
    #[test]
    fn changed_bytes_are_refused_or_a_program_with_a_text(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let body = "peekh v, q\n L: isnil t, v ; jnz t, end\n next v, v ; jmp L\n end: ldc x, 3 ; find v, x";
        let mut bytes = Program::parse(&with_body("", body)).unwrap().to_bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(program) = Program::from_bytes(&bytes) {
            prop_assert_eq!(&program.to_bytes(), &bytes);
            let text = program.to_text();
            let again = Program::parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(again.to_bytes(), bytes);
            run(&program, &mut machine(&program), 1000, None);
        }
    }
}

/// Each of seven events calls the next one 400 times: more steps than can be counted.
#[test]
fn steps_beyond_all_numbers_are_bounded_by_the_greatest() {
    let events = (0..7).rev().map(|level| {
        let calls = if level < 6 { format!("call e{} ; ", level + 1).repeat(400) } else { String::new() };
        format!("event e{level} {{ ldc x, 0 ; ldc x, 0 ; {calls}ret }}\n")
    });
    let text = format!(
        "policy deep {{ int x = 0\n event initial {{ ret }}\n event fault(p) {{ call e0 ; ret }}\n \
         event replace(c) {{ ret c }}\n{}}}",
        events.collect::<String>()
    );
    let program = Program::parse(&text).unwrap();
    assert_eq!(program.steps_max("fault"), Some(u32::MAX));
}
