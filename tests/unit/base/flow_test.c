#include "base/flow.h"
#include "base/list.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

enum { ASK, WAITING, AGAIN, GOOD, BAD };

struct job {
    struct flow flow;
    int countdown; /* how often AGAIN repeats */
    bool fails, depends;
};

static char trace[256];
static int ended;

static struct job *job_of(struct flow *f)
{
    return container_of(f, struct job, flow);
}

static enum flow_result step_ask(struct flow *f)
{
    flow_goto(f, WAITING);
    return FLOW_WAIT;
}

static enum flow_result step_waiting(struct flow *f)
{
    flow_goto(f, job_of(f)->fails ? BAD : AGAIN);
    return job_of(f)->fails ? FLOW_DONE : FLOW_NEXT;
}

static enum flow_result step_again(struct flow *f)
{
    flow_goto(f, job_of(f)->countdown-- > 0 ? AGAIN : GOOD);
    return FLOW_NEXT;
}

static void on_end(struct flow *f)
{
    ended = f->state;
    free(job_of(f)); /* the struct is nobody's any more */
}

static void on_move(struct flow *f, int from, int to)
{
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof trace - n, "%s>%s ", f->kind->state[from].name,
             f->kind->state[to].name);
}

static const struct flow_state states[] = {
    [ASK] = {"ASK", FLOW_TO(WAITING), step_ask},
    [WAITING] = {"WAITING", FLOW_TO(AGAIN) | FLOW_TO(BAD), step_waiting},
    [AGAIN] = {"AGAIN", FLOW_TO(AGAIN) | FLOW_TO(GOOD), step_again},
    [GOOD] = {"GOOD", 0, NULL},
    [BAD] = {"BAD", 0, NULL},
};
static const struct flow_kind kind = {"job", 5, states, on_end, on_move};

static struct job *start(void)
{
    struct job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    trace[0] = 0;
    ended = -1;
    flow_start(&j->flow, &kind, ASK);
    return j;
}

static void test_path(void **state)
{
    (void)state;
    struct job *j = start();
    assert_int_equal(j->flow.state, WAITING);
    assert_int_equal(ended, -1);
    j->countdown = 2;
    flow_resume(&j->flow);
    assert_int_equal(ended, GOOD);
    assert_string_equal(trace, "ASK>WAITING WAITING>AGAIN AGAIN>AGAIN AGAIN>AGAIN AGAIN>GOOD ");
    j = start();
    j->fails = true;
    flow_resume(&j->flow);
    assert_int_equal(ended, BAD);
}

static void test_move_in_completion(void **state)
{
    (void)state;
    /* The completion may decide itself and move before it resumes, even to the end. */
    struct job *j = start();
    flow_goto(&j->flow, BAD);
    flow_resume(&j->flow);
    assert_int_equal(ended, BAD);
    assert_string_equal(trace, "ASK>WAITING WAITING>BAD ");
}

static void test_flat_stack(void **state)
{
    (void)state;
    struct job *j = start();
    j->countdown = 1000000; /* a recursion would need more stack than there is */
    flow_resume(&j->flow);
    assert_int_equal(ended, GOOD);
}

static struct job bug;

static void illegal_move(void)
{
    flow_start(&bug.flow, &kind, ASK);
    flow_goto(&bug.flow, GOOD);
}

static void no_such_state(void)
{
    flow_start(&bug.flow, &kind, 7);
}

static enum flow_result step_resumes(struct flow *f)
{
    flow_resume(f);
    return FLOW_WAIT;
}
static enum flow_result step_stuck(struct flow *f)
{
    (void)f;
    return FLOW_NEXT;
}
static enum flow_result step_ends_early(struct flow *f)
{
    (void)f;
    return FLOW_DONE;
}
static const struct flow_state bad_states[] = {
    {"RESUMES", FLOW_TO(3), step_resumes},
    {"STUCK", FLOW_TO(3), step_stuck},
    {"ENDS_EARLY", FLOW_TO(3), step_ends_early},
    {"END", 0, NULL},
};
static const struct flow_kind bad_kind = {"bad", 4, bad_states, NULL, NULL};

static void completes_inside_submit(void)
{
    flow_start(&bug.flow, &bad_kind, 0);
}
static void next_without_move(void)
{
    flow_start(&bug.flow, &bad_kind, 1);
}
static void done_in_the_middle(void)
{
    flow_start(&bug.flow, &bad_kind, 2);
}

static void test_bugs_abort(void **state)
{
    (void)state;
    assert_true(unit_aborts(illegal_move));
    assert_true(unit_aborts(no_such_state));
    assert_true(unit_aborts(completes_inside_submit));
    assert_true(unit_aborts(next_without_move));
    assert_true(unit_aborts(done_in_the_middle));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_move_in_completion),
        cmocka_unit_test(test_flat_stack),
        cmocka_unit_test(test_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
