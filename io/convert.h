/* io/convert.h - numbers in and out of tensor files. SPDX-License-Identifier: Apache-2.0
 *
 * Independent of the library's own conversions, so that a mistake there shows in a comparison.
 */
#ifndef RD_IO_CONVERT_H
#define RD_IO_CONVERT_H

#include "redelta/types.h"

/* Nearest-even with subnormals and overflow to infinity; NaN stays NaN (quiet). */
uint16_t io_f32_to_f16(float value);
uint16_t io_f32_to_bf16(float value);
float io_f16_to_f32(uint16_t bits);
float io_bf16_to_f32(uint16_t bits);

/* Element `i` of an F32, F16, BF16, I32 or I64 array as a double (I64 beyond 2^53 is rounded). */
double io_get(const void *data, rd_dtype dtype, int64_t i);

/* Stores `value`, rounded to f32 first and then to the type; I32 and I64 truncate. */
void io_set(void *data, rd_dtype dtype, int64_t i, double value);

#endif
