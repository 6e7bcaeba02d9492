/* Internal to conf*.c: values and bounds as text. */
#pragma once

#include "base/conf.h"

/* What a value may be: "a duration from 1ms to 10s", "one of a, b, c". */
void conf_text_allowed(const struct conf_option *o, struct strbuf *out);
