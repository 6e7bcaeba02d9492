/* Reads a YAML configuration file into conf: nested maps become dotted names. Unknown keys,
 * duplicates, anchors, lists and a second document are errors with line and column. */
#pragma once

#include "base/conf.h"

/* 0; ERR_NOTFOUND (no such file), ERR_INVALID; err: "file:line:column: what". */
int yaml_conf_load(struct conf *c, const char *path, char *err, size_t err_cap);
