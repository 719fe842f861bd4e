/* Named tensors, settings and shape texts of an operator call on its way to the model. */
#include "npu/kernels/harness/kernel.h"

#include "npu/machine/float16.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rdn_call_init(rdn_call *call, rd_npu_arch arch) {
  memset(call, 0, sizeof *call);
  call->arch = arch;
}

void rdn_call_free(rdn_call *call) {
  for (uint32_t i = 0; i < call->tensor_count; i++)
    if (call->tensor[i].owned) free(call->tensor[i].data);
  free(call->args);
  memset(call, 0, sizeof *call);
}

size_t rdn_type_bytes(rd_npu_type type) {
  switch (type) {
  case RD_NPU_F16:
  case RD_NPU_BF16:
  case RD_NPU_S16:
    return 2;
  case RD_NPU_F32:
  case RD_NPU_S32:
    return 4;
  case RD_NPU_S64:
    return 8;
  }
  return 0;
}

const char *rdn_type_name(rd_npu_type type) {
  static const char *const names[] = {"f16", "bf16", "f32", "s32", "s16", "s64"};
  return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

const rdn_named *rdn_call_input(const rdn_call *call, const char *name) {
  for (uint32_t i = 0; i < call->tensor_count; i++)
    if (strcmp(call->tensor[i].name, name) == 0) return &call->tensor[i];
  return NULL;
}

rdn_named *rdn_call_tensor(rdn_call *call, const char *name) {
  for (uint32_t i = 0; i < call->tensor_count; i++)
    if (strcmp(call->tensor[i].name, name) == 0) return &call->tensor[i];
  return NULL;
}

int64_t rdn_named_count(const rdn_named *tensor) {
  int64_t n = 1;
  for (uint32_t i = 0; i < tensor->rank; i++) n *= tensor->shape[i];
  return n;
}

uint64_t rdn_named_bytes(const rdn_named *tensor) {
  return (uint64_t)rdn_named_count(tensor) * rdn_type_bytes(tensor->type);
}

rdn_named *rdn_call_add(rdn_call *call, const char *name, rd_npu_type type, uint32_t rank,
                        const int64_t *shape, void *data) {
  if (call->tensor_count == RDN_CALL_TENSORS || rank > RDN_CALL_RANK ||
      strlen(name) >= sizeof call->tensor[0].name) {
    rdn_call_fail(call, "tensor %s does not fit the call", name);
    return NULL;
  }
  rdn_named *t = &call->tensor[call->tensor_count];
  memset(t, 0, sizeof *t);
  snprintf(t->name, sizeof t->name, "%s", name);
  t->type = type;
  t->rank = rank;
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++) {
    t->shape[i] = shape[i];
    if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count) || count > INT64_MAX / 16) {
      rdn_call_fail(call, "tensor %s: size overflow", name);
      return NULL;
    }
  }
  t->data = data;
  if (!data) {
    size_t bytes = ((size_t)count * rdn_type_bytes(type) + 64) & ~(size_t)63;
    t->data = aligned_alloc(64, bytes);
    if (!t->data) {
      rdn_call_fail(call, "tensor %s: out of memory for %zu bytes", name, bytes);
      call->status = RD_NPU_NO_MEMORY;
      return NULL;
    }
    memset(t->data, 0, bytes);
    t->owned = true;
  }
  call->tensor_count++;
  return t;
}

rd_npu_status rdn_call_expect(rdn_call *call, const char *name, rd_npu_type type, uint32_t rank,
                              const int64_t *shape, const rdn_named **out) {
  const rdn_named *t = rdn_call_input(call, name);
  if (!t) return rdn_call_fail(call, "%s: missing", name);
  if (t->type != type)
    return rdn_call_fail(call, "%s: expected %s on %s, got %s", name, rdn_type_name(type),
                         rd_npu_arch_get(call->arch)->name, rdn_type_name(t->type));
  if (t->rank != rank)
    return rdn_call_fail(call, "%s: expected rank %u, got %u", name, rank, t->rank);
  for (uint32_t i = 0; shape && i < rank; i++)
    if (shape[i] >= 0 && t->shape[i] != shape[i])
      return rdn_call_fail(call, "%s: expected dimension %u to be %" PRId64 ", got %" PRId64, name,
                           i, shape[i], t->shape[i]);
  *out = t;
  return RD_NPU_OK;
}

double rdn_named_value(const rdn_named *tensor, int64_t index) {
  const char *p = (const char *)tensor->data + (size_t)index * rdn_type_bytes(tensor->type);
  uint16_t h;
  int16_t s16;
  float f;
  int32_t s32;
  int64_t s64;
  switch (tensor->type) {
  case RD_NPU_F16:
    memcpy(&h, p, 2);
    return rdn_f16_to(h);
  case RD_NPU_BF16:
    memcpy(&h, p, 2);
    return rdn_bf16_to(h);
  case RD_NPU_F32:
    memcpy(&f, p, 4);
    return (double)f;
  case RD_NPU_S16:
    memcpy(&s16, p, 2);
    return s16;
  case RD_NPU_S32:
    memcpy(&s32, p, 4);
    return s32;
  case RD_NPU_S64:
    memcpy(&s64, p, 8);
    return (double)s64;
  }
  return 0;
}

void rdn_named_store(rdn_named *tensor, int64_t index, double value) {
  char *p = (char *)tensor->data + (size_t)index * rdn_type_bytes(tensor->type);
  uint16_t h;
  int16_t s16;
  float f;
  int32_t s32;
  int64_t s64;
  switch (tensor->type) {
  case RD_NPU_F16:
    h = rdn_f16_from(value), memcpy(p, &h, 2);
    break;
  case RD_NPU_BF16:
    h = rdn_bf16_from(value), memcpy(p, &h, 2);
    break;
  case RD_NPU_F32:
    f = (float)value, memcpy(p, &f, 4);
    break;
  case RD_NPU_S16:
    s16 = (int16_t)value, memcpy(p, &s16, 2);
    break;
  case RD_NPU_S32:
    s32 = (int32_t)value, memcpy(p, &s32, 4);
    break;
  case RD_NPU_S64:
    s64 = (int64_t)value, memcpy(p, &s64, 8);
    break;
  }
}

bool rdn_call_set(rdn_call *call, const char *name, const char *value) {
  rdn_setting *s = NULL;
  for (uint32_t i = 0; i < call->setting_count; i++)
    if (strcmp(call->setting[i].name, name) == 0) s = &call->setting[i];
  if (!s) {
    if (call->setting_count == RDN_CALL_SCALARS) return false;
    s = &call->setting[call->setting_count];
  }
  if (strlen(name) >= sizeof s->name || strlen(value) >= sizeof s->value) return false;
  if (s == &call->setting[call->setting_count]) call->setting_count++;
  snprintf(s->name, sizeof s->name, "%s", name);
  snprintf(s->value, sizeof s->value, "%s", value);
  return true;
}

const char *rdn_call_setting(const rdn_call *call, const char *name) {
  for (uint32_t i = 0; i < call->setting_count; i++)
    if (strcmp(call->setting[i].name, name) == 0) return call->setting[i].value;
  return NULL;
}

rd_npu_status rdn_call_fail(rdn_call *call, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(call->error, sizeof call->error, format, list);
  va_end(list);
  return call->status = RD_NPU_BAD_INPUT;
}

uint32_t rdn_call_gm(rdn_call *call, const rdn_named *tensor, rd_npu_access_mode mode) {
  uint32_t n = call->launch.tensor_count;
  if (n == RDN_CALL_TENSORS) return UINT32_MAX;
  call->gm[n] = (rd_npu_tensor){tensor->name, tensor->data, rdn_named_bytes(tensor),
                                (uint32_t)rdn_type_bytes(tensor->type), mode};
  call->launch.tensors = call->gm;
  call->launch.tensor_count = n + 1;
  return n;
}

/* The text after "key=" in a comma-separated list, NULL when the key is absent. */
static const char *shape_value(const char *shape, const char *key) {
  size_t length = strlen(key);
  for (const char *p = shape; p && *p;) {
    if (strncmp(p, key, length) == 0 && p[length] == '=') return p + length + 1;
    p = strchr(p, ',');
    if (p) p++;
  }
  return NULL;
}

bool rdn_shape_int(const char *shape, const char *key, int64_t fallback, int64_t *value) {
  const char *p = shape_value(shape, key);
  *value = fallback;
  if (!p) return true;
  char *end;
  long long v = strtoll(p, &end, 10);
  if (end == p || (*end && *end != ',')) return false;
  *value = v;
  return true;
}

int rdn_shape_list(const char *shape, const char *key, int64_t *values, int max) {
  const char *p = shape_value(shape, key);
  int n = 0;
  while (p && *p && *p != ',') {
    char *end;
    long long v = strtoll(p, &end, 10);
    if (end == p || n == max || (*end && *end != ',' && *end != ':')) return -1;
    values[n++] = v;
    p = *end == ':' ? end + 1 : end;
  }
  return n;
}

bool rdn_shape_text(const char *shape, const char *key, char *out, size_t size) {
  const char *p = shape_value(shape, key);
  if (!p) return false;
  size_t n = strcspn(p, ",");
  if (n >= size) return false;
  memcpy(out, p, n);
  out[n] = 0;
  return true;
}

uint64_t rdn_rand(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double rdn_rand_uniform(uint64_t *state) {
  return ((double)(rdn_rand(state) >> 12) + 0.5) * 0x1p-52;
}

double rdn_rand_normal(uint64_t *state) {
  double u = rdn_rand_uniform(state), v = rdn_rand_uniform(state);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

uint16_t rdn_f16_from(double value) { return f16_from_double(value); }
double rdn_f16_to(uint16_t bits) { return (double)f16_to_float(bits); }
uint16_t rdn_bf16_from(double value) { return bf16_from_double(value); }
double rdn_bf16_to(uint16_t bits) { return (double)bf16_to_float(bits); }
