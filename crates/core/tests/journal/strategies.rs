//! Strategies for all journal entries.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use tidemill_core::workflow::*;
use tidemill_core::{Kind, QueueName, Timestamp};

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    let what = prop_oneof![event().prop_map(EntryContent::Event), commit().prop_map(EntryContent::Commit)];
    (any::<i64>(), what).prop_map(|(at, what)| Entry { at: Timestamp(at), content: what })
}

fn json() -> impl Strategy<Value = Json> {
    let text = prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
        Just(r#"{"b": 1.100,"a":[1e400, {}]}"#.to_owned()),
    ];
    text.prop_map(|text| Json::from_text(text).unwrap())
}

fn topic() -> impl Strategy<Value = Topic> {
    "[a-zA-Z0-9._:/-]{1,20}".prop_map(|text| text.parse().unwrap())
}

fn kind() -> impl Strategy<Value = Kind> {
    "[a-zA-Z0-9._:/-]{1,20}".prop_map(|text| text.parse().unwrap())
}

fn queue() -> impl Strategy<Value = QueueName> {
    "[a-zA-Z0-9._/-]{1,20}".prop_map(|text| text.parse().unwrap())
}

fn workflow() -> impl Strategy<Value = WorkflowName> {
    "[a-zA-Z0-9._-]{1,20}".prop_map(|text| text.parse().unwrap())
}

fn version() -> impl Strategy<Value = Version> {
    "[a-zA-Z0-9._+-]{1,20}".prop_map(|text| text.parse().unwrap())
}

fn run() -> impl Strategy<Value = RunId> {
    "[!-}]{1,40}".prop_map(|text| text.parse().unwrap())
}

fn signal() -> impl Strategy<Value = StoredSignal> {
    (topic(), json(), any::<String>()).prop_map(|(name, payload, id)| StoredSignal { name, payload, id })
}

fn activity_end() -> impl Strategy<Value = ActivityResult> {
    let timeout =
        prop_oneof![Just(Timeout::StartToClose), Just(Timeout::ScheduleToClose), Just(Timeout::Heartbeat)];
    let kind = prop_oneof![
        Just(FailureKind::Failed),
        timeout.prop_map(FailureKind::TimedOut),
        Just(FailureKind::Cancelled)
    ];
    let failure = (any::<String>(), kind, any::<u32>())
        .prop_map(|(message, kind, attempts)| ActivityFailure { message, kind, attempts });
    prop_oneof![json().prop_map(ActivityResult::Ok), failure.prop_map(ActivityResult::Failed)]
}

fn child_end() -> impl Strategy<Value = ChildResult> {
    prop_oneof![
        json().prop_map(ChildResult::Ok),
        any::<String>().prop_map(|message| ChildResult::Failed { message }),
        Just(ChildResult::Cancelled),
        Just(ChildResult::Terminated),
    ]
}

fn started() -> impl Strategy<Value = RunEvent> {
    let parent = option::of((run(), any::<u64>()).prop_map(|(run, seq)| Parent {
        run,
        seq,
        notify_parent: NotifyParent::Both,
    }));
    let text = || option::of(any::<String>());
    let facts = (workflow(), version(), json(), parent, text(), text());
    let numbers =
        (any::<u64>(), any::<u64>(), option::of(run()), option::of(any::<u64>()), option::of(any::<u64>()));
    (facts, numbers, vec(signal(), 0..3), vec(signal(), 0..3)).prop_map(
        |(
            (workflow, version, input, parent, key, request_id),
            (continued, seq, seed, limit, keep_ms),
            signals,
            updates,
        )| {
            RunEvent::Started(Box::new(RunStarted {
                workflow,
                version,
                input,
                parent,
                key,
                continued,
                seq,
                seed,
                request_id,
                limit,
                keep_ms,
                signals,
                updates,
            }))
        },
    )
}

fn event() -> impl Strategy<Value = RunEvent> {
    let sent = prop_oneof![
        Just(SignalDelivery::Ok),
        any::<String>().prop_map(|message| SignalDelivery::Failed { message })
    ];
    prop_oneof![
        started(),
        (any::<u64>(), activity_end()).prop_map(|(seq, result)| RunEvent::ActivityDone { seq, result }),
        any::<u64>().prop_map(|seq| RunEvent::TimerFired { seq }),
        signal().prop_map(RunEvent::Signal),
        (any::<u64>(), run()).prop_map(|(seq, run)| RunEvent::ChildStarted { seq, run }),
        (any::<u64>(), child_end()).prop_map(|(seq, result)| RunEvent::ChildDone { seq, result }),
        option::of(any::<String>()).prop_map(|reason| RunEvent::CancelRequested { reason }),
        (any::<String>(), topic(), json()).prop_map(|(id, name, payload)| RunEvent::Update {
            id,
            name,
            payload
        }),
        (any::<u64>(), sent).prop_map(|(seq, result)| RunEvent::SignalSent { seq, result }),
    ]
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(max_attempts, base_ms, cap_ms, jitter_ms)| RetryPolicy { max_attempts, base_ms, cap_ms, jitter_ms },
    )
}

fn activity() -> impl Strategy<Value = Command> {
    let times = (option::of(any::<u64>()), option::of(any::<u64>()), option::of(any::<u64>()));
    (any::<u64>(), kind(), json(), option::of(queue()), retry(), times).prop_map(
        |(seq, name, input, queue, retry, (start_to_close_ms, schedule_to_close_ms, heartbeat_ms))| {
            Command::ScheduleActivity(Box::new(ScheduleActivity {
                seq,
                name,
                input,
                queue,
                retry,
                start_to_close_ms,
                schedule_to_close_ms,
                heartbeat_ms,
            }))
        },
    )
}

fn child() -> impl Strategy<Value = Command> {
    let close =
        prop_oneof![Just(ParentClose::Terminate), Just(ParentClose::Cancel), Just(ParentClose::Abandon)];
    let told = prop_oneof![Just(NotifyParent::Start), Just(NotifyParent::End), Just(NotifyParent::Both)];
    let keep = option::of(any::<u64>());
    (any::<u64>(), workflow(), version(), json(), run(), close, told, keep).prop_map(
        |(seq, workflow, version, input, run, parent_close, told, keep_ms)| {
            let child =
                StartChild { seq, workflow, version, input, run, parent_close, notify_parent: told, keep_ms };
            Command::StartChild(Box::new(child))
        },
    )
}

fn answer() -> impl Strategy<Value = UpdateResult> {
    prop_oneof![
        json().prop_map(UpdateResult::Ok),
        any::<String>().prop_map(|message| UpdateResult::Failed { message })
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let signal_run = (any::<u64>(), run(), topic(), json())
        .prop_map(|(seq, run, name, payload)| Command::SignalRun { seq, run, name, payload });
    let local = (any::<u64>(), kind(), activity_end(), any::<u32>())
        .prop_map(|(seq, name, result, attempts)| Command::LocalActivity { seq, name, result, attempts });
    prop_oneof![
        activity(),
        child(),
        signal_run,
        local,
        any::<u64>().prop_map(|seq| Command::CancelActivity { seq }),
        any::<u64>().prop_map(|seq| Command::CancelTimer { seq }),
        any::<u64>().prop_map(|seq| Command::CancelChild { seq }),
        (any::<u64>(), any::<i64>()).prop_map(|(seq, due_ms)| Command::StartTimer { seq, due_ms }),
        (any::<u64>(), json()).prop_map(|(seq, value)| Command::SideEffect { seq, value }),
        (any::<u64>(), any::<String>(), any::<u64>(), any::<u64>())
            .prop_map(|(seq, what, size, limit)| Command::TooLarge { seq, what, size, limit }),
        topic().prop_map(|id| Command::Patch { id }),
        btree_map(topic(), json(), 0..3).prop_map(|values| Command::SearchAttributes { values }),
        (any::<String>(), answer()).prop_map(|(id, result)| Command::UpdateDone { id, result }),
    ]
}

fn end() -> impl Strategy<Value = RunEnd> {
    prop_oneof![
        json().prop_map(RunEnd::Completed),
        any::<String>().prop_map(|message| RunEnd::Failed { message }),
        Just(RunEnd::Cancelled),
        (json(), any::<u64>(), vec(signal(), 0..3), vec(signal(), 0..3)).prop_map(
            |(input, seq, signals, updates)| RunEnd::ContinuedAsNew { input, seq, signals, updates }
        ),
    ]
}

fn commit() -> impl Strategy<Value = Commit> {
    (any::<u64>(), vec(command(), 0..6), option::of(end()), vec(awaited(), 0..3))
        .prop_map(|(upto, commands, end, awaits)| Commit { upto, commands, end, awaits })
}

fn awaited() -> impl Strategy<Value = AwaitedMessage> {
    prop_oneof![topic().prop_map(AwaitedMessage::Signal), topic().prop_map(AwaitedMessage::Update)]
}
