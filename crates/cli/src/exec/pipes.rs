//! What flows between a worker and a program: the envelope in, the output and the complaints out, all at once
//! and all bounded.

use tidemill::Envelope;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

/// The longest output that is kept.
pub(super) const MAX_OUTPUT: usize = 1 << 20;

/// How much of the end of stderr is kept: what went wrong is said last, and a dead letter holds 8 KiB.
const MAX_COMPLAINT: usize = 4 << 10;

/// What a program wrote.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    pub(super) output: Vec<u8>,
    /// Whether there was more than [`MAX_OUTPUT`].
    pub(super) overflowed: bool,
    /// The end of what it said on stderr.
    pub(super) complaint: Vec<u8>,
}

/// The worker's ends of a program's pipes.
pub(super) struct Ends {
    envelope: bytes::Bytes,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Pipes {
    pub(super) fn of(child: &mut Child, envelope: &Envelope) -> (Self, Ends) {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        (Self::default(), Ends { envelope: envelope.bytes().clone(), stdin, stdout, stderr })
    }

    /// Lets everything flow until all pipes are closed. What has arrived is kept if this is dropped.
    pub(super) async fn flow(&mut self, ends: &mut Ends) {
        let Self { output, overflowed, complaint } = self;
        let Ends { envelope, stdin, stdout, stderr } = ends;
        let give = async {
            if let Some(mut stdin) = stdin.take() {
                // A program that does not want to know closes its stdin, and that is its right.
                let _ = stdin.write_all(envelope).await;
            }
        };
        let keep_output = |chunk: &[u8]| {
            let room = MAX_OUTPUT - output.len();
            *overflowed |= chunk.len() > room;
            output.extend_from_slice(&chunk[..chunk.len().min(room)]);
        };
        let keep_complaint = |chunk: &[u8]| {
            complaint.extend_from_slice(chunk);
            let excess = complaint.len().saturating_sub(MAX_COMPLAINT);
            complaint.drain(..excess);
        };
        tokio::join!(give, drain(stdout, keep_output), drain(stderr, keep_complaint));
    }
}

/// Reads to the end, however much it is: a full pipe would stop the program.
async fn drain(pipe: &mut Option<impl AsyncRead + Unpin>, mut keep: impl FnMut(&[u8])) {
    let Some(pipe) = pipe else { return };
    let mut chunk = vec![0; 8 << 10];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        keep(&chunk[..length]);
    }
}
