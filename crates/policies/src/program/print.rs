//! The text of a program, from its code. Labels get new names; `loop` is left out, since the assembler sets
//! it.

use std::fmt::Write;

use super::code::{ARGUMENTS, Code, Event, Instruction, Op, Operand, SlotKind};

/// Text that parses to this code.
pub(super) fn print(code: &Code) -> String {
    let mut text =
        format!("policy {} {}{{\n", code.name, if code.is_privileged { "privileged " } else { "" });
    for (keyword, kind) in [("queue", SlotKind::Queue), ("ghost", SlotKind::Ghosts), ("page", SlotKind::Page)]
    {
        let of_kind = code.slots.iter().filter(|slot| slot.kind == kind);
        let names: Vec<_> = of_kind.map(|slot| slot.name.as_str()).collect();
        if !names.is_empty() {
            line(&mut text, format_args!("  {keyword} {}", names.join(", ")));
        }
    }
    for slot in &code.slots {
        match slot.kind {
            SlotKind::Int(value) => line(&mut text, format_args!("  int {} = {value}", slot.name)),
            SlotKind::Const(value) => line(&mut text, format_args!("  const {} = {value}", slot.name)),
            SlotKind::Queue | SlotKind::Ghosts | SlotKind::Page => {}
        }
    }
    code.events.iter().for_each(|event| print_event(&mut text, code, event));
    text.push_str("}\n");
    text
}

fn print_event(text: &mut String, code: &Code, event: &Event) {
    let parameter = event.locals.first().filter(|_| event.has_parameter);
    let parameter = parameter.map_or(String::new(), |local| format!("({})", local.name));
    line(text, format_args!("  event {}{parameter} {{", event.name));
    let instructions = &code.instructions[event.first..event.end];
    let mut targets: Vec<usize> =
        instructions.iter().filter_map(|instruction| instruction.target()).map(usize::from).collect();
    targets.sort_unstable();
    targets.dedup();
    for (number, instruction) in (event.first..).zip(instructions) {
        if let Ok(label) = targets.binary_search(&number) {
            line(text, format_args!("  L{}:", label + 1));
        }
        if instruction.op != Op::Loop {
            line(text, format_args!("    {}", show(code, event, *instruction, &targets)));
        }
    }
    text.push_str("  }\n");
}

fn show(code: &Code, event: &Event, instruction: Instruction, targets: &[usize]) -> String {
    let operands = instruction.operands().map(|(operand, value)| {
        let value = usize::from(value);
        match operand {
            Operand::Constant => code.constants[value].to_string(),
            Operand::Label => format!("L{}", targets.partition_point(|target| *target < value) + 1),
            Operand::Event => code.events[value].name.clone(),
            Operand::Bit => value.to_string(),
            Operand::Argument => ARGUMENTS[value].to_owned(),
            _ => code.slot(event, value).map_or_else(String::new, |(name, _)| name.to_owned()),
        }
    });
    let operands: Vec<_> = operands.collect();
    format!("{} {}", instruction.op.row().name, operands.join(", ")).trim_end().to_owned()
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes everything");
}
