//! `iotrace-perf live … -- COMMAND`: operations are printed while they happen.
//!
//! The recording goes into a log as always, in this case one without a name. Another thread reads
//! it as it grows, through the same stages as any log, and frees its space on the disk.

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use super::analyse::private_log;
use super::args::LiveArgs;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::message::print_line;
use super::report_output::output;
use super::script::{ScriptLog, ScriptShape};
use super::tailing_reader::{LogCompletion, TailingReader};
use super::target::{self, TargetWords};
use super::{recording, summary_lines};
use crate::pipeline::{self, Summary};

pub(super) fn run(args: &LiveArgs) -> Result<ExitCode, CliError> {
    recording::refuse_stacks(&args.capture)?;
    let wish = FilterSpec::of(&args.filter)?;
    let shape = ScriptShape::of(&args.shape)?;
    let has_program = !args.capture.command.is_empty();
    let to = output(args.to.as_deref(), has_program)?.into_writer();
    let (log, place) = private_log()?;
    let ended = LogCompletion::default();
    let failed = |source| CliError::Open { path: place.path.clone(), source };
    let written = log.try_clone().map_err(failed)?;
    let input = TailingReader::open(&place.path, Some(written), &ended).map_err(failed)?;
    let its_end = ended.clone();
    let mut printer = None;
    let start_printing = |_: &Path| {
        // The program has been forked by now: before that, there must be one thread.
        let print = move || follow(input, &its_end, wish, shape, to, has_program);
        printer = Some(std::thread::Builder::new().name("iotrace-live".into()).spawn(print)?);
        log.try_clone()
    };
    let target = target::resolved(&args.capture, TargetWords::of_filter(&args.filter))?;
    let mut recorded = recording::capture(&target, |_| Ok(place), start_printing);
    ended.set();
    if let (Ok(recorded), Some(printer)) = (&mut recorded, &printer) {
        recorded.wait_for(printer, &ended);
    }
    let printed = printer.map(|printer| match &recorded {
        Ok(recorded) => recorded.result_of(printer),
        Err(_) => printer.join().unwrap_or(Err(CliError::Interrupted)),
    });
    let recorded = recorded?;
    match printed {
        Some(Ok(summary)) => summary_lines::print_doubts(&summary),
        // The reader of the output has closed it.
        Some(Err(CliError::BrokenPipe)) | None => {}
        Some(Err(_)) if recorded.is_interrupted() => {}
        Some(Err(error)) => print_line(&format!("error: {error}")),
    }
    recorded.end()
}

/// Prints operations until the recording has ended.
fn follow(
    input: TailingReader,
    ended: &LogCompletion,
    wish: FilterSpec<'static>,
    shape: ScriptShape,
    to: Box<dyn Write + Send>,
    has_program: bool,
) -> Result<Summary, CliError> {
    let path = Path::new("(the recording)");
    let rest = input.discarder().map_err(CliError::Output)?;
    let out = SharedWriter(Rc::new(RefCell::new(BufWriter::new(to))));
    let flushed = out.clone();
    let printed = pipeline::open::<_, io::Error>(input)
        .map_err(|error| CliError::pipeline(path, &error))
        .and_then(|(items, header)| {
            let filter = wish.filter(&header)?;
            let mut failure = None;
            let go_on = &mut || {
                failure = flushed.clone().flush().err();
                failure.is_none()
            };
            let printed =
                ScriptLog { path, items, header, filter, grows: true, go_on }.print(shape, out);
            failure.map_or(printed, |failure| Err(CliError::output(failure)))
        });
    if printed.is_err() {
        if !has_program {
            ended.stop_recording();
        }
        // The program goes on, and its log takes no room.
        if let Some(rest) = rest {
            rest.discard();
        }
    }
    printed
}

/// Writer that is flushed by another owner than the one that writes.
#[derive(Clone)]
struct SharedWriter(Rc<RefCell<BufWriter<Box<dyn Write + Send>>>>);

impl Write for SharedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
