#include "base/streams.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a process of its own: 0 when the next file would get a number that is no standard stream. */
static int next_is_harmless(unsigned closed)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 0; fd < 3; fd++) {
            if (closed & 1u << fd)
                close(fd);
        }
        streams_hold();
        int fd = open("/dev/null", O_RDONLY);
        bool open3 = fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0;
        _exit(fd > 2 && open3 ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void closed_ones_are_filled(void **state)
{
    (void)state;
    for (unsigned closed = 0; closed < 8; closed++)
        assert_int_equal(next_is_harmless(closed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_ones_are_filled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
