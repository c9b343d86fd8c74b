//! The pipes of a program: envelope in, output and error output out, concurrently and bounded.

use tidemill::Envelope;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

/// Maximum output that is kept.
pub(super) const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Maximum error output that is kept, from its end: the last lines explain a failure, and a dead
/// letter holds 8 KiB.
const MAX_STDERR_BYTES: usize = 4 << 10;

/// The output of a program.
#[derive(Debug, Default)]
pub(super) struct PipeOutput {
    pub(super) output: Vec<u8>,
    /// Whether the output exceeded [`MAX_OUTPUT_BYTES`].
    pub(super) overflowed: bool,
    /// The end of stderr.
    pub(super) error_output: Vec<u8>,
}

/// The worker's ends of a program's pipes.
pub(super) struct PipeEnds {
    envelope: bytes::Bytes,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl PipeOutput {
    pub(super) fn new(child: &mut Child, envelope: &Envelope) -> (Self, PipeEnds) {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        (Self::default(), PipeEnds { envelope: envelope.bytes().clone(), stdin, stdout, stderr })
    }

    /// Transfers until all pipes are closed. Keeps the data read so far if this future is dropped.
    pub(super) async fn transfer(&mut self, ends: &mut PipeEnds) {
        let Self { output, overflowed, error_output } = self;
        let PipeEnds { envelope, stdin, stdout, stderr } = ends;
        let write_envelope = async {
            if let Some(mut stdin) = stdin.take() {
                // A program may close its stdin without reading it.
                let _ = stdin.write_all(envelope).await;
            }
        };
        let keep_output = |chunk: &[u8]| {
            let free = MAX_OUTPUT_BYTES - output.len();
            *overflowed |= chunk.len() > free;
            output.extend_from_slice(&chunk[..chunk.len().min(free)]);
        };
        let keep_complaint = |chunk: &[u8]| {
            error_output.extend_from_slice(chunk);
            let excess = error_output.len().saturating_sub(MAX_STDERR_BYTES);
            error_output.drain(..excess);
        };
        tokio::join!(write_envelope, drain(stdout, keep_output), drain(stderr, keep_complaint));
    }
}

/// Reads to the end, beyond the limits: a full pipe would block the program.
async fn drain(pipe: &mut Option<impl AsyncRead + Unpin>, mut keep: impl FnMut(&[u8])) {
    let Some(pipe) = pipe else { return };
    let mut chunk = vec![0; 8 << 10];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        keep(&chunk[..length]);
    }
}
