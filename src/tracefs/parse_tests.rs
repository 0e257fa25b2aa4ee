//! Tests of the parser: the texts that it takes and refuses, and that an accepted text prints back
//! unchanged.

use proptest::prelude::*;

use super::super::field::FieldKind;
use super::*;

/// Excerpt of a real file: `sched/sched_process_exec` of Linux 6.18.
const EXEC: &str = "\
name: sched_process_exec
ID: 365
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;

print fmt: \"filename=%s pid=%d\", __get_str(filename), REC->pid
";

#[track_caller]
fn parsed(text: &str) -> EventFormat {
    let format = EventFormat::parse(text).expect("a format the kernel prints");
    assert_eq!(format.to_string(), text, "the format prints back as it was");
    format
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = EventFormat::parse(text).expect_err("a text no kernel prints");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_whole_file() {
    let format = parsed(EXEC);
    assert_eq!((format.name.as_str(), format.id), ("sched_process_exec", Some(365)));
    assert_eq!(format.print_fmt, "\"filename=%s pid=%d\", __get_str(filename), REC->pid");

    let names = |fields: &[Field]| -> Vec<String> {
        fields.iter().map(|field| field.name.clone()).collect()
    };
    assert_eq!(names(format.common_fields()), ["common_type", "common_pid"]);
    assert_eq!(names(format.event_fields()), ["filename", "pid"]);

    let pid = format.field("pid").expect("a field of the file");
    assert_eq!(pid.declaration, "pid_t pid");
    assert_eq!((pid.offset, pid.size, pid.signed, pid.kind), (12, 4, true, FieldKind::Int));
    assert_eq!(format.field("ppid"), None);
}

#[test]
fn sections_may_be_empty() {
    let format = parsed("name: marker\nID: 7\nformat:\n\n\nprint fmt: \"\"\n");
    assert_eq!(format.fields, []);

    let format = parsed(
        "name: m\nID: 7\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\n\nprint fmt: \n",
    );
    assert_eq!((format.common_fields().len(), format.event_fields().len()), (1, 0));
    assert_eq!(format.print_fmt, "");

    let format = parsed(
        "name: m\nID: 7\nformat:\n\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\nprint fmt: \n",
    );
    assert_eq!((format.common_fields().len(), format.event_fields().len()), (0, 1));
}

#[test]
fn an_event_may_have_no_id() {
    assert_eq!(parsed("name: x\nformat:\n\n\nprint fmt: \"\"\n").id, None);
}

#[test]
fn kernels_before_2_6_33_print_no_sign() {
    let format = parsed(
        "name: x\nID: 1\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\n\n\nprint fmt: \"\"\n",
    );
    assert!(!format.field("a").expect("a field of the file").signed);
}

#[test]
fn a_print_format_may_have_several_lines() {
    let format = parsed("name: x\nID: 1\nformat:\n\n\nprint fmt: \"a\n\nname: b\n\", 1\n");
    assert_eq!(format.print_fmt, "\"a\n\nname: b\n\", 1");
}

#[test]
fn errors_name_line_and_reason() {
    check_error("", "line 1: expected `name: ` and the event's name");
    check_error("name: \n", "line 1: expected `name: ` and the event's name");
    check_error("name: x", "line 1: the text ends in the middle of a line");
    check_error("name: x\n", "line 2: expected `format:`");
    check_error(
        "name: x\nID: 07\n",
        "line 2: `07` is not a number from 0 to 4294967295, as `ID` needs",
    );
    let in_field = |line: &str, expected: &str| {
        check_error(
            &EXEC.replace("\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;", line),
            expected,
        );
    };
    in_field(
        "field:pid_t pid;",
        "line 8: expected a field, or the blank line that ends the fields",
    );
    in_field("\tfield:pid_t pid;", "line 8: expected `;`, a tab and `offset:`");
    in_field("\tfield:pid_t pid;\toffset:12;", "line 8: expected `;`, a tab and `size:`");
    in_field("\tfield:pid_t pid;\toffset:12;\tsize:4", "line 8: expected `;` after the size");
    in_field(
        "\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:2;",
        "line 8: expected a tab and `signed:0;` or `signed:1;`",
    );
    in_field(
        "\tfield:pid_t pid;\toffset:-1;\tsize:4;\tsigned:1;",
        "line 8: `-1` is not a number from 0 to 4294967295, as `offset` needs",
    );
    in_field(
        "\tfield:pid_t pid;\toffset:12;\tsize:4294967296;\tsigned:1;",
        "line 8: `4294967296` is not a number from 0 to 4294967295, as `size` needs",
    );
    in_field(
        "\tfield:pid;\toffset:12;\tsize:4;\tsigned:1;",
        "line 8: `pid` does not declare a type and a name",
    );
    check_error(&EXEC.replace("print fmt", "print"), "line 10: expected `print fmt: `");
    check_error(
        &EXEC.replace("REC->pid\n", "REC->\npid"),
        "line 11: the text ends in the middle of a line",
    );
}

#[test]
fn every_cut_is_noticed() {
    for (end, _) in EXEC.char_indices() {
        let (cut, _) = EXEC.split_at(end);
        assert!(EventFormat::parse(cut).is_err(), "accepted:\n{cut}");
    }
}

/// Fails if an accepted text does not print back as it was, or if a text causes a panic.
fn check_round_trip(text: &str) {
    if let Ok(format) = EventFormat::parse(text) {
        assert_eq!(format.to_string(), text);
    }
}

proptest! {
    #[test]
    fn any_text_is_handled(text in any::<String>()) {
        check_round_trip(&text);
    }

    #[test]
    fn any_text_of_the_grammars_pieces_is_handled(pieces in prop::collection::vec(
        prop::sample::select(vec![
            "name: ", "x", "\n", "ID: ", "1", "0", "format:", "\tfield:", "int a", "char[] ", "[",
            "]", "__data_loc ", "*", " ", ";", "\toffset:", "\tsize:", "\tsigned:", "print fmt: ",
            "é", "-", "+",
        ]),
        0..60,
    )) {
        check_round_trip(&pieces.concat());
    }

    #[test]
    fn a_damaged_file_is_handled(
        at in 0..EXEC.len(),
        length in 0..20_usize,
        patch in any::<String>(),
    ) {
        let mut bytes = EXEC.as_bytes().to_vec();
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, patch.bytes());
        check_round_trip(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_field_is_found_again(
        type_text in "[a-z_]{1,9}( [a-z_]{1,9}){0,2}( \\*)?",
        name in "[a-z_][a-z0-9_]{0,12}",
        length in prop::option::of("[0-9]{0,3}|[A-Z_]{1,9}"),
        offset: u32,
        size: u32,
        signed: Option<bool>,
    ) {
        let length = length.map(|length| format!("[{length}]")).unwrap_or_default();
        let declaration = format!("{type_text} {name}{length}");
        let sign = signed.map(|signed| format!("\tsigned:{};", u8::from(signed))).unwrap_or_default();
        let format = parsed(&format!(
            "name: e\nID: 1\nformat:\n\n\
             \tfield:{declaration};\toffset:{offset};\tsize:{size};{sign}\n\n\
             print fmt: \"\"\n"
        ));
        let field = format.field(&name).expect("the field just written");
        prop_assert_eq!(&field.declaration, &declaration);
        prop_assert_eq!((field.offset, field.size), (offset, size));
        prop_assert_eq!(field.signed, signed == Some(true));
    }

    #[test]
    fn accessors_never_read_outside(
        offset in prop_oneof![0..80_u32, any::<u32>()],
        declaration in prop::sample::select(vec![
            ("u64 x", 8_u32), ("s16 x", 2), ("u32 x[3]", 12), ("char x[9]", 9), ("char x[]", 0),
            ("__data_loc char[] x", 4), ("__rel_loc char x[]", 4),
        ]),
        payload in prop::collection::vec(prop_oneof![0..40_u8, any::<u8>()], 0..80),
        index in prop_oneof![0..4_usize, any::<usize>()],
    ) {
        let (declaration, size) = declaration;
        let format = parsed(&format!(
            "name: e\nID: 1\nformat:\n\n\
             \tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n\n\
             print fmt: \"\"\n"
        ));
        let whole = u64::from(offset) + u64::from(size) <= payload.len() as u64;
        if let Ok(field) = format.int("x") {
            prop_assert_eq!(field.read_u64(&payload).is_some(), whole);
            prop_assert_eq!(field.read_i64(&payload).is_some(), whole);
        } else if let Ok(field) = format.array("x") {
            let end = u64::from(offset) + 4 * (index.min(2) as u64 + 1);
            let inside = index < 3 && end <= payload.len() as u64;
            prop_assert_eq!(field.read_u64(&payload, index).is_some(), inside);
        } else {
            let text = format.string("x").expect("a string").read(&payload);
            prop_assert!(whole || text.is_none());
            prop_assert!(text.is_none_or(|text| !text.contains(&0)));
        }
    }
}
