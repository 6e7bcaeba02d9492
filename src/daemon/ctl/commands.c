/* Every command, in the order of --help. */
#include "daemon/ctl/ctl.h"

extern const struct ctl_command migrate_command, activity_create_command, activity_show_command,
    activity_list_command, activity_open_command, activity_pause_command, activity_close_command,
    stock_warm_command, stock_show_command, token_command, storm_command, audit_command,
    dead_letters_list_command, dead_letters_show_command, dead_letters_replay_command,
    queue_show_command, queue_check_command, pay_command, order_show_command, actions_list_command,
    order_cancel_command, reservation_show_command, reservation_release_command,
    stock_set_total_command, reconcile_run_command, reconcile_show_command, rebuild_plan_command,
    rebuild_run_command;

const struct ctl_command *const ctl_commands[] = {
    &migrate_command,
    &activity_create_command,
    &activity_list_command,
    &activity_show_command,
    &stock_warm_command,
    &stock_show_command,
    &stock_set_total_command,
    &activity_open_command,
    &activity_pause_command,
    &activity_close_command,
    &token_command,
    &storm_command,
    &pay_command,
    &order_show_command,
    &order_cancel_command,
    &reservation_show_command,
    &reservation_release_command,
    &reconcile_run_command,
    &reconcile_show_command,
    &rebuild_plan_command,
    &rebuild_run_command,
    &audit_command,
    &queue_show_command,
    &queue_check_command,
    &dead_letters_list_command,
    &dead_letters_show_command,
    &dead_letters_replay_command,
    &actions_list_command,
};
const size_t ctl_commands_len = sizeof(ctl_commands) / sizeof(ctl_commands[0]);
