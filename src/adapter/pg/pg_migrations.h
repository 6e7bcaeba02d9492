/* The files of sql/, embedded by CMake: migration i has version i + 1. */
#pragma once

struct pg_migration {
    const char *name; /* "0001_tables" */
    const char *text; /* zero-terminated */
};
extern const struct pg_migration pg_migrations[];
extern const int pg_migrations_n;
