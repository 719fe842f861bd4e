/* What every unit test file here includes; cmocka wants these headers before its own. */
#ifndef RD_TEST_IO_UNIT_H
#define RD_TEST_IO_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
