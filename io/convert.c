/* Conversions by integer arithmetic. SPDX-License-Identifier: Apache-2.0 */
#include "io/convert.h"
#include "io/io.h"

#include <string.h>

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* x >> shift, ties to even; shift in 1..31. */
static uint32_t shift_rounded(uint32_t x, uint32_t shift) {
  uint32_t half = 1u << (shift - 1), rest = x & ((half << 1) - 1), result = x >> shift;
  return result + (rest > half || (rest == half && (result & 1u)));
}

uint16_t io_f32_to_f16(float value) {
  uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, mag = bits & 0x7fffffffu;
  uint32_t half;
  if (mag > 0x7f800000u) {
    half = 0x7e00u;
  } else if (mag >= 0x47800000u) { /* 2^16 and above, infinity included */
    half = 0x7c00u;
  } else if (mag >= 0x38800000u) { /* normal: rebias by 112; a carry may reach infinity */
    half = shift_rounded(mag - (112u << 23), 13);
  } else { /* subnormal: value = m * 2^(e-150), wanted in units of 2^-24 */
    uint32_t exponent = mag >> 23, shift = 126u - exponent;
    uint32_t fraction = (mag & 0x7fffffu) | 0x800000u;
    half = exponent == 0 || shift > 25u ? 0u : shift_rounded(fraction, shift);
  }
  return (uint16_t)(sign | half);
}

uint16_t io_f32_to_bf16(float value) {
  uint32_t bits = bits_of(value), mag = bits & 0x7fffffffu;
  if (mag > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits >> 16 & 0x8000u) | shift_rounded(mag, 16));
}

float io_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
           fraction = bits & 0x3ffu;
  if (exponent == 31u) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112u) << 23 | fraction << 13);
  float small = (float)fraction * 0x1p-24f; /* exact */
  return sign ? -small : small;
}

float io_bf16_to_f32(uint16_t bits) { return float_of((uint32_t)bits << 16); }

double io_get(const void *data, rd_dtype dtype, int64_t i) {
  switch (dtype) {
  case RD_F32:
    return (double)((const float *)data)[i];
  case RD_F16:
    return (double)io_f16_to_f32(((const uint16_t *)data)[i]);
  case RD_BF16:
    return (double)io_bf16_to_f32(((const uint16_t *)data)[i]);
  case RD_I32:
    return (double)((const int32_t *)data)[i];
  case RD_I64:
    return (double)((const int64_t *)data)[i];
  case RD_ABSENT:
    break;
  }
  return 0.0;
}

void io_set(void *data, rd_dtype dtype, int64_t i, double value) {
  switch (dtype) {
  case RD_F32:
    ((float *)data)[i] = (float)value;
    break;
  case RD_F16:
    ((uint16_t *)data)[i] = io_f32_to_f16((float)value);
    break;
  case RD_BF16:
    ((uint16_t *)data)[i] = io_f32_to_bf16((float)value);
    break;
  case RD_I32:
    ((int32_t *)data)[i] = (int32_t)value;
    break;
  case RD_I64:
    ((int64_t *)data)[i] = (int64_t)value;
    break;
  case RD_ABSENT:
    break;
  }
}

int io_tensor_number(const io_tensor *tensor, int64_t index, double *value) {
  if (tensor->dtype->rd != RD_ABSENT) {
    *value = io_get(tensor->data, tensor->dtype->rd, index);
    return 1;
  }
  if (strcmp(tensor->dtype->name, "F64") != 0) return 0;
  memcpy(value, (const double *)tensor->data + index, sizeof *value);
  return 1;
}
