//! The list of cases: a case that is added here becomes a test of every store.

/// Creates one test per case for the store that `$open`, a path to an `async fn() ->
/// StoreUnderTest`, opens.
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
            recover {
                what_a_worker_holds_and_does_not_know_is_recovered,
                a_recovered_job_is_extended_started_and_settled,
                a_held_job_is_recovered_too,
                a_worker_recovers_its_own_jobs_of_one_queue_only,
                what_was_rescued_is_not_recovered,
                nothing_is_recovered_from_a_queue_that_is_not_there,
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
            settle {
                a_finished_job_is_gone,
                a_second_settlement_has_no_effect,
                two_settlements_of_one_lease_in_one_batch_are_one,
                an_untracked_job_is_given_up_once,
                a_wrong_token_has_no_effect,
                a_late_settlement_has_no_effect_on_the_next_holder,
                a_late_settlement_has_no_effect_on_a_rescued_job_that_waits,
                an_expired_lease_that_nobody_rescued_can_still_be_settled,
                each_settlement_of_a_batch_stands_for_itself,
                nothing_to_settle_is_no_error,
                the_output_is_kept_in_the_record,
                a_discarded_job_says_why,
                a_held_job_is_handed_back_untouched,
                a_time_without_end_does_no_harm_to_the_rest_of_its_batch,
                a_foreign_envelope_with_an_endless_time_harms_no_other_job,
            }
            retry {
                a_job_that_is_retried_at_once_is_ready,
                a_job_that_is_retried_later_is_scheduled,
                a_retry_is_never_early,
                a_retry_wakes_a_waiting_claim,
                snoozing_and_handing_back_count_no_attempt,
                the_last_failure_leads_to_the_dead_letters,
                foreign_fields_survive_retries,
            }
            rescue {
                a_job_comes_back_when_its_lease_runs_out,
                nothing_healthy_is_rescued,
                a_crash_counts_only_if_the_job_had_started,
                an_expired_lease_names_its_holder_and_its_job,
                a_lease_that_was_extended_since_is_not_rescued,
                a_lease_that_was_settled_since_is_not_rescued,
                a_lease_is_rescued_once,
                the_one_expired_lease_is_found_among_hundreds_of_healthy_ones,
                a_rescue_covers_every_page,
                a_page_of_expired_leases_is_bounded,
                a_poison_job_ends_in_the_dead_letters,
                one_look_covers_every_queue,
                a_look_says_what_time_it_is,
                a_rescued_job_wakes_a_waiting_claim,
            }
            cancel {
                a_waiting_job_is_removed,
                a_scheduled_job_is_removed,
                a_removed_job_can_be_enqueued_again,
                a_running_job_is_told,
                a_running_job_that_is_not_in_the_index_is_told,
                a_running_job_that_is_cancelled_can_still_end_in_every_way,
                a_request_ends_with_the_job_it_was_for,
                a_job_that_has_ended_says_how,
                a_job_that_is_not_there_is_not_found,
                a_job_that_was_rescued_is_removed,
            }
            dead_letters {
                a_dead_job_is_kept_with_its_reason_time_and_error,
                foreign_fields_survive_death_and_return,
                a_letter_is_brought_back_as_if_new,
                letters_are_brought_back_once_though_jobs_die_again_at_once,
                a_job_that_has_died_again_is_not_brought_back_by_its_old_letter,
                a_letter_that_is_gone_is_skipped,
                letters_are_brought_back_by_kind_reason_and_error,
                hundreds_of_letters_are_brought_back_page_by_page,
                hundreds_of_letters_are_dropped_page_by_page,
                a_dropped_letter_is_gone_for_good,
                a_letter_is_brought_back_once_by_many,
                a_letter_of_another_queue_is_left_alone,
                a_letter_that_is_brought_back_wakes_a_waiting_claim,
                bytes_that_are_no_envelope_are_kept_and_disturb_nothing,
                an_envelope_that_cannot_be_edited_is_no_envelope,
            }
            pause {
                a_paused_queue_gives_nothing_to_anyone,
                a_resumed_queue_gives_what_came_meanwhile,
                a_queue_can_be_paused_before_its_first_job,
                a_pause_reaches_only_its_queue,
                a_waiting_claim_stops_when_its_queue_is_paused,
                whoever_waits_gets_work_again_after_a_resume,
                running_jobs_of_a_paused_queue_go_on,
                delayed_jobs_of_a_paused_queue_wait_for_the_resume,
                a_purge_takes_what_waits_and_leaves_the_rest,
                a_purge_reaches_only_its_queue,
                a_purge_leaves_what_is_enqueued_while_it_deletes,
            }
            promote {
                a_delayed_job_is_never_early,
                a_job_with_a_time_is_never_early,
                a_delayed_job_is_scheduled_until_then,
                a_time_in_the_past_is_now,
                promoting_says_how_long_until_the_next,
                promoting_moves_a_bounded_number_and_says_if_there_are_more,
                promoting_covers_every_queue_it_is_given,
                delayed_jobs_come_in_the_order_of_their_times,
                a_waiting_claim_is_given_a_job_whose_time_has_come,
                a_job_in_thirty_years_disturbs_no_other,
                a_job_at_the_end_of_time_disturbs_no_other,
                nothing_to_promote_is_no_error,
            }
            inspect {
                a_job_that_never_was_is_not_found,
                a_job_is_found_in_every_state,
                a_scheduled_and_a_dead_job_are_found,
                lists_show_each_job_of_a_state_once_page_by_page,
                lists_show_running_and_dead_jobs,
                a_page_is_bounded,
                the_list_of_an_unknown_queue_is_empty,
                queues_are_counted,
                two_queues_of_one_name_are_counted_apart,
                a_checkup_names_the_server_and_how_safe_it_is,
                commands_are_counted,
                the_clock_goes_on,
            }
            wake {
                the_end_of_a_kept_job_is_announced,
                whoever_waits_for_a_job_is_woken_however_it_ends,
                a_worker_that_loses_a_job_to_a_rescuer_is_told,
                the_cancelling_of_a_running_job_is_announced,
                a_job_that_is_due_sooner_than_all_others_is_announced,
                a_retry_that_is_due_sooner_than_all_others_is_announced,
                a_job_nobody_waits_for_ends_in_silence,
                a_handle_waits_for_the_end_elsewhere,
            }
            prune {
                a_record_is_kept_as_long_as_it_says,
                an_expired_record_is_removed_and_its_id_is_free,
                nothing_that_lives_is_pruned,
                a_worker_that_leaves_disturbs_no_other,
                a_worker_nobody_knows_may_leave,
            }
            concurrency {
                one_id_enqueued_by_many_is_one_job,
                one_lease_settled_by_many_is_settled_once,
                delayed_jobs_promoted_by_many_are_moved_once,
                leases_rescued_by_many_are_rescued_once,
                a_job_is_either_cancelled_or_claimed,
                many_clients_and_workers_settle_each_job_once,
                maintenance_everywhere_loses_and_doubles_nothing,
            }
            cleanup {
                a_finished_job_leaves_nothing,
                every_way_to_end_leaves_nothing,
                cancelled_and_purged_jobs_leave_nothing,
                expired_records_leave_nothing,
                rescued_and_redriven_jobs_leave_nothing,
                abandoned_at_most_once_jobs_leave_nothing,
                a_paused_and_resumed_queue_leaves_nothing,
                looking_leaves_nothing,
            }
            history {
                random_histories_agree_with_the_model,
                random_histories_agree_with_the_model_at_most_once,
            }
            chains {
                a_job_that_continues_is_followed_by_the_next,
                the_output_of_the_last_job_is_the_chains,
                any_step_finds_what_its_chain_is_at,
                a_chain_may_go_on_in_another_queue_and_later,
                a_chain_may_loop,
                the_next_step_wakes_whoever_waits_for_its_queue,
                a_stale_lease_continues_nothing,
                the_same_id_is_one_chain_wherever_it_is,
                a_step_is_retried_buried_and_brought_back_like_any_job,
                a_step_whose_worker_died_is_rescued,
                a_chain_is_cancelled_wherever_it_is,
                the_close_of_a_chain_is_announced_by_its_id,
                a_plain_job_may_become_a_chain,
                a_drained_chain_leaves_nothing,
            }
            blockers {
                a_job_starts_when_all_its_blockers_are_closed_and_sees_their_outputs,
                a_chain_that_is_closed_already_blocks_nobody,
                a_chain_blocks_until_its_last_job_has_ended,
                the_next_step_may_wait_too,
                a_blocked_job_that_is_not_due_yet_is_scheduled_then,
                what_a_job_was_told_survives_its_retries,
                a_chain_that_is_not_there_cannot_be_waited_for,
                a_job_that_keeps_no_result_cannot_be_waited_for,
                the_next_step_is_told_of_a_chain_that_is_gone,
                a_cancelled_chain_releases_with_the_word_cancelled,
                a_dead_chain_releases_nobody_until_it_is_brought_back_or_dropped,
                an_at_most_once_job_whose_worker_died_releases_whoever_waits_for_it,
                a_purged_chain_releases_whoever_waits_elsewhere,
                a_blocked_job_is_listed_counted_cancelled_and_purged,
                many_may_wait_for_one_and_one_for_many,
                chains_that_close_at_the_same_moment_start_each_job_once,
                a_job_that_begins_to_wait_while_its_chain_closes_starts_once,
                waiting_leaves_nothing,
            }
            dedup {
                an_open_chain_takes_the_place_of_another_with_its_key,
                a_closed_chain_counts_where_any_does,
                only_a_chain_within_the_window_counts,
                a_dead_chain_is_still_open,
                a_key_is_free_when_its_chain_is_gone,
                one_key_started_by_many_is_one_chain,
                keys_leave_nothing,
            }
            complete {
                a_waiting_job_is_ended,
                a_running_job_is_ended_and_its_worker_has_lost_the_lease,
                whoever_runs_it_is_told,
                a_job_that_is_ended_from_outside_may_continue,
                a_step_that_was_left_behind_is_not_touched,
                a_blocked_job_is_ended_and_waits_for_nobody,
                ending_a_chain_from_outside_releases_whoever_waits_for_it,
                what_has_ended_or_never_was_cannot_be_ended,
                of_many_who_end_a_job_one_does,
                ending_from_outside_leaves_nothing,
            }
            delete {
                a_chain_is_deleted_in_every_state,
                a_chain_that_others_wait_for_is_not,
                a_cancelled_waiter_holds_nothing,
                an_id_and_a_key_are_free_again,
                a_chain_that_never_was_is_not_found,
            }
            runs {
                a_run_begins_with_its_first_entry_and_a_task,
                a_task_names_the_commit_before_it,
                the_store_writes_its_own_time_into_a_journal,
                the_same_id_is_one_run,
                a_key_is_one_run_and_the_second_caller_gets_it,
                a_run_is_found_by_its_key,
                one_key_started_by_many_is_one_run,
                however_many_events_arrive_there_is_one_task,
                what_a_task_did_not_consume_comes_with_the_next,
                signals_keep_their_order_and_none_is_lost_however_many,
                an_event_with_an_id_is_delivered_once,
                a_run_that_has_ended_or_never_was_is_told_nothing,
                deliveries_of_a_batch_stand_for_themselves,
                a_waiting_claim_is_woken_by_a_run_and_by_an_event,
                a_commit_is_an_entry_and_its_effects,
                a_run_is_told_how_its_activity_ended,
                a_stale_activity_tells_nothing,
                an_activity_of_a_run_that_has_ended_tells_nobody,
                an_activity_that_is_not_wanted_any_more_is_cancelled,
                a_late_worker_cannot_commit,
                a_commit_from_where_the_run_is_not_has_no_effect,
                a_task_whose_worker_died_comes_back,
                a_task_that_is_put_back_is_the_same_and_events_wait_for_it,
                a_dead_task_waits_for_a_redrive,
                commits_of_many_runs_go_together,
                many_activities_of_one_run_may_end_in_one_batch,
                a_commit_may_ask_for_ten_thousand_things,
                an_answer_is_kept_for_whoever_asked,
                a_journal_is_read_in_parts,
                a_run_may_begin_where_another_was,
                many_callers_at_once_lose_and_double_nothing,
            }
            run_ends {
                an_alarm_tells_the_run_when_its_time_has_come_and_not_before,
                an_alarm_that_is_past_fires_at_once,
                an_activity_that_is_not_done_in_time_is_told_of,
                an_alarm_is_dropped_by_command_and_by_the_answer,
                alarms_fire_once_whoever_promotes,
                whoever_sleeps_until_an_alarm_hears_of_an_earlier_one,
                a_run_that_begins_again_has_a_new_journal_and_the_messages_it_did_not_see,
                a_signal_that_races_with_a_new_beginning_is_neither_lost_nor_doubled,
                a_run_that_has_ended_says_how,
                the_end_of_a_run_is_announced,
                a_parent_is_told_of_its_childs_end_in_the_same_step,
                parents_and_children_that_end_at_once_do_not_stand_in_each_others_way,
                a_run_is_terminated_wherever_it_is,
                a_run_that_has_moved_on_is_not_terminated_by_who_has_not_seen_it,
                runs_are_listed_newest_first_page_by_page,
                runs_are_found_by_type_status_time_and_attribute,
                closed_runs_expire_by_age,
                closed_runs_expire_by_count_and_open_ones_do_not,
                a_run_that_is_gone_leaves_nothing,
            }
            run_limits {
                a_task_ends_with_the_event_that_fills_it_and_the_rest_come_with_the_next,
                a_journal_is_read_up_to_so_many_bytes,
                very_many_effects_of_one_commit_all_take_place,
                a_run_begins_again_however_much_it_has_not_seen,
                ids_of_deliveries_outlive_a_new_beginning_but_not_for_ever,
                what_was_delivered_before_the_end_has_been_delivered_after_it_too,
                a_run_that_has_only_just_ended_is_not_one_too_many,
                a_run_whose_time_is_over_makes_way_before_it_is_pruned,
            }
            run_jobs {
                a_run_and_a_job_with_its_id_live_side_by_side,
                an_id_that_belongs_to_a_run_is_no_jobs,
                what_a_run_goes_on_by_cannot_be_taken_away,
                a_purge_leaves_what_runs_go_on_by,
                a_letter_of_a_task_is_not_dropped,
                a_run_hears_of_an_activity_that_was_cancelled,
                a_run_hears_of_a_cancelled_activity_however_its_attempt_ends,
                runs_hear_of_activities_that_were_purged,
            }
            fleet_workers {
                a_member_that_joins_is_there_for_everyone_as_it_described_itself,
                a_member_without_an_endpoint_is_listed_and_never_given,
                a_beat_brings_what_has_changed,
                beats_of_many_are_answered_in_order,
                a_beat_enters_whole_whom_the_store_does_not_know,
                whoever_is_entered_anew_gets_no_session_for_a_while,
                whoever_has_not_beaten_for_too_long_gets_no_session_before_holders_have_spoken,
                a_member_that_joins_again_begins_anew,
                a_member_that_parts_is_gone_with_all_it_had,
                members_are_listed_by_kind_page_by_page,
                a_member_that_is_ordered_to_drain_hears_of_it_and_is_given_to_nobody,
                nobody_who_is_not_there_is_ordered_anything,
                a_member_that_does_not_beat_is_reaped_with_its_sessions,
                a_member_that_does_not_beat_is_given_to_nobody_even_before_it_is_reaped,
                many_who_reap_at_once_reap_each_once,
            }
            worker_choice {
                the_most_used_below_the_margin_comes_first,
                of_equals_the_one_with_the_fewest_sessions_comes_first,
                when_all_are_beyond_the_margin_any_that_has_room_is_given,
                a_member_of_one_session_is_given_once,
                a_member_that_is_full_is_not_given_until_a_session_ends,
                only_members_of_the_kind_and_offer_are_given,
                a_draining_member_is_given_to_nobody_and_comes_back_when_it_says_so,
                a_member_that_did_not_answer_is_exchanged_for_another,
                many_who_ask_at_once_exceed_no_limit,
            }
            sessions {
                a_session_is_there_for_everyone_as_it_was_described,
                asking_again_gives_the_same_member_and_takes_no_second_place,
                a_lease_that_is_repeated_is_answered_as_before,
                a_session_that_nobody_extends_gives_its_place_back,
                a_session_that_has_run_out_is_reaped_once,
                a_session_that_is_extended_does_not_run_out,
                a_session_that_is_kept_outlives_its_connection,
                a_session_nobody_is_connected_to_goes_to_who_comes_back,
                a_session_is_taken_over_only_by_who_says_so,
                a_session_the_store_has_forgotten_is_entered_again,
                a_session_that_must_be_known_is_not_entered_again,
                a_session_whose_place_is_taken_is_lost,
                what_is_held_is_said_for_many_at_once,
                a_session_is_ended_once,
                the_end_of_a_session_is_announced_to_its_member,
                a_member_hears_of_its_last_session_when_that_begins,
                whoever_holds_a_session_is_asked_to_close_it,
                a_session_nobody_is_connected_to_is_closed_on_the_spot,
                sessions_are_listed_by_member_page_by_page,
                a_spent_member_is_ordered_to_drain_when_its_session_ends,
                sessions_that_have_ended_leave_nothing,
            }
            lease_waiters {
                whoever_waits_is_served_first_in_first_out_across_gateways,
                a_newcomer_does_not_pass_by_those_who_wait,
                who_gives_back_a_member_that_did_not_answer_stands_behind_nobody,
                a_full_line_takes_nobody,
                a_member_of_one_session_counts_as_a_worker_until_it_leaves,
                lines_for_different_things_do_not_meet,
                who_gives_up_makes_way,
                who_does_not_ask_again_loses_its_place,
                places_that_nobody_asked_for_are_reaped,
                whoever_waits_hears_of_a_session_that_ends,
                whoever_waits_hears_of_a_member_that_joins,
                the_next_hears_when_the_first_was_served,
                a_crowd_is_served_to_the_last,
            }
            rejected_workers {
                what_the_first_in_line_refuses_is_given_to_the_next,
                the_next_is_given_what_the_first_refuses_and_nothing_else,
                the_first_takes_what_it_can_use_and_leaves_the_rest,
                what_one_of_those_before_could_use_is_not_given,
                what_all_who_are_before_refuse_is_found_among_what_only_some_do,
                who_refuses_nothing_still_comes_first,
                only_the_latest_refusals_count,
                what_was_refused_is_forgotten_with_the_place_in_line,
                refusals_leave_nothing_behind,
                who_may_have_what_was_given_back_hears_of_it,
                nobody_refuses_more_than_a_few,
            }
        }
    };
    (@tests ($open:path) $($topic:ident { $($case:ident,)* })*) => {
        async fn conformance_subject() -> $crate::conformance::StoreUnderTest {
            $open().await
        }
        $(
            mod $topic {
                $(
                    #[test]
                    fn $case() {
                        $crate::conformance::run(super::conformance_subject, $crate::conformance::$topic::$case);
                    }
                )*
            }
        )*
    };
    (@names $($topic:ident { $($case:ident,)* })*) => {
        [$($(concat!(stringify!($topic), "::", stringify!($case)),)*)*]
    };
    ($open:path) => {
        $crate::conformance! { @each tests ($open) }
    };
}
