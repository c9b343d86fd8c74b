//! The list of cases, written once: adding a case here adds a test to every store.

/// Makes one test per case for the store that `$open`, a path to an `async fn() -> Subject`, opens.
#[macro_export]
macro_rules! conformance {
    (@each $what:ident $($args:tt)*) => {
        $crate::conformance! { @$what $($args)*
            enqueue {
                a_job_is_given_out_to_the_letter,
                an_acknowledged_job_is_there_for_every_other_connection,
                the_same_id_is_one_job_while_it_waits,
                the_same_id_is_one_job_while_it_is_scheduled,
                the_same_id_is_one_job_while_it_runs,
                the_same_id_is_one_job_while_it_waits_for_its_next_attempt,
                the_same_id_is_one_job_while_it_is_dead,
                the_same_id_is_one_job_while_its_record_is_kept,
                the_same_id_is_one_job_on_whatever_queue,
                the_same_id_twice_in_one_batch_is_one_job,
                an_id_is_free_again_when_its_job_is_gone,
                a_repeated_enqueue_changes_nothing_of_the_first,
                answers_come_in_the_order_of_the_jobs,
                an_empty_batch_does_nothing,
                a_batch_of_a_thousand_jobs_is_added_whole,
                a_batch_may_mix_ready_and_delayed_jobs,
                a_payload_of_a_mebibyte_survives,
                text_in_every_spelling_survives,
                an_id_may_hold_any_printable_character,
                a_delay_of_a_century_is_kept,
            }
            claim {
                the_oldest_job_comes_first,
                a_claimed_job_is_not_given_out_again,
                each_job_goes_to_one_of_many_claimants,
                no_more_are_given_than_asked_for,
                fewer_are_given_when_there_are_fewer,
                the_first_are_started_and_the_rest_are_held,
                an_empty_queue_gives_nothing,
                a_waiting_claim_is_woken_by_an_enqueue_elsewhere,
                an_interrupted_claim_ends_early,
                an_interrupt_that_races_with_an_enqueue_loses_nothing,
                queues_do_not_mix,
                tokens_only_grow,
                an_at_most_once_job_is_never_given_out_twice,
                an_at_most_once_id_is_free_again_after_its_lease,
            }
            lease {
                an_extended_lease_does_not_run_out,
                an_at_most_once_lease_is_extended_too,
                a_lease_is_lost_when_its_job_is_settled,
                a_lease_is_lost_when_its_job_is_rescued,
                an_expired_lease_can_be_extended_until_it_is_rescued,
                answers_come_in_the_order_of_the_leases,
                a_wrong_token_extends_and_starts_nothing,
                a_held_job_is_extended_started_and_settled,
                a_started_job_counts_its_crash,
                nothing_to_extend_or_start_is_no_error,
            }
        }
    };
    (@tests ($open:path) $($theme:ident { $($case:ident,)* })*) => {
        async fn conformance_subject() -> $crate::conformance::Subject {
            $open().await
        }
        $(
            mod $theme {
                $(
                    #[test]
                    fn $case() {
                        $crate::conformance::run(super::conformance_subject, $crate::conformance::$theme::$case);
                    }
                )*
            }
        )*
    };
    (@names $($theme:ident { $($case:ident,)* })*) => {
        [$($(concat!(stringify!($theme), "::", stringify!($case)),)*)*]
    };
    ($open:path) => {
        $crate::conformance! { @each tests ($open) }
    };
}
