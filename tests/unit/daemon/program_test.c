#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/common/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_options(void **state)
{
    char prog[] = "p", a[] = "--ports-file", b[] = "/x", c[] = "rest";
    char d[] = "--ports-file=/y";
    char *argv[] = {prog, a, b, c, NULL}, *argv2[] = {prog, d, NULL}, *argv3[] = {prog, a, NULL};
    int argc = 4, argc2 = 2, argc3 = 2;
    (void)state;
    assert_string_equal(program_take_option(&argc, argv, "--ports-file"), "/x");
    assert_int_equal(argc, 2);
    assert_string_equal(argv[1], "rest");
    assert_null(argv[2]);
    assert_null(program_take_option(&argc, argv, "--ports-file"));
    assert_string_equal(program_take_option(&argc2, argv2, "--ports-file"), "/y");
    assert_int_equal(program_no_more(argc2, argv2, "p"), 0);
    assert_string_equal(program_take_option(&argc3, argv3, "--ports-file"), "");
    assert_int_equal(argc3, 1);
}

static void test_ports_file(void **state)
{
    char dir[] = "/tmp/seckill-ports-XXXXXX", path[64], text[64] = "", err[256] = "";
    struct program_port ports[] = {{"api", 8080}, {"admin", 8081}};
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/ports", dir);
    for (int i = 0; i < 2; i++) { /* also over an old one */
        assert_int_equal(program_write_ports(path, ports, 2, err, sizeof(err)), 0);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        assert_non_null(fgets(text, sizeof(text), f));
        fclose(f);
        assert_string_equal(text, "api=8080 admin=8081\n");
    }
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* nothing else is left there */
    assert_true(program_write_ports(path, ports, 2, err, sizeof(err)) < 0);
    assert_true(strlen(err) > 0);
}

static void test_loops(void **state)
{
    (void)state;
    assert_int_equal(program_loops(3), 3);
    assert_true(program_loops(0) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_ports_file),
                                       cmocka_unit_test(test_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
