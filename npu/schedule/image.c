/* Copies of the GM tensors a launch can write, so that a program can run again from the same start.
 */
#include "npu/schedule/image.h"
#include "npu/machine/float16.h"

#include <stdlib.h>
#include <string.h>

static bool writable(const rd_npu_tensor *t) { return t->mode & RD_NPU_OUT && t->bytes; }

bool rdn_image_take(gm_image *g, const rd_npu_launch *l) {
  g->launch = l;
  g->data = calloc(l->tensor_count + 1, sizeof *g->data);
  if (!g->data) return false;
  for (uint32_t t = 0; t < l->tensor_count; t++) {
    if (!writable(&l->tensors[t])) continue;
    g->data[t] = malloc(l->tensors[t].bytes);
    if (!g->data[t]) return false;
    memcpy(g->data[t], l->tensors[t].data, l->tensors[t].bytes);
  }
  return true;
}

bool rdn_image_copy(gm_image *to, const gm_image *from) {
  const rd_npu_launch *l = from->launch;
  to->launch = l;
  if (!to->data) to->data = calloc(l->tensor_count + 1, sizeof *to->data);
  if (!to->data) return false;
  for (uint32_t t = 0; t < l->tensor_count; t++) {
    if (!from->data[t]) continue;
    if (!to->data[t]) to->data[t] = malloc(l->tensors[t].bytes);
    if (!to->data[t]) return false;
    memcpy(to->data[t], from->data[t], l->tensors[t].bytes);
  }
  return true;
}

void rdn_image_free(gm_image *g) {
  for (uint32_t t = 0; g->data && t < g->launch->tensor_count; t++) free(g->data[t]);
  free(g->data);
  memset(g, 0, sizeof *g);
}

void rdn_image_bind(const gm_image *g, memory *m) {
  for (uint32_t t = 0; t < m->tensor_count; t++)
    m->gm[t] = g->data[t] ? g->data[t] : m->tensors[t].data;
}

bool rdn_image_differs(const gm_image *a, const gm_image *b, uint32_t *tensor, uint64_t *byte) {
  for (uint32_t t = 0; t < a->launch->tensor_count; t++) {
    if (!a->data[t] || memcmp(a->data[t], b->data[t], a->launch->tensors[t].bytes) == 0) continue;
    uint64_t at = 0;
    while (a->data[t][at] == b->data[t][at]) at++;
    *tensor = t;
    *byte = at;
    return true;
  }
  return false;
}

/* GM tensors have no element type in the model: 2 bytes read as f16, 4 as f32, 8 as integers. */
double rdn_element(const rd_npu_tensor *t, const uint8_t *data, uint64_t index) {
  uint32_t size = t->elem_bytes;
  uint16_t h = 0;
  float f = 0;
  int64_t s = 0;
  if (!size || (index + 1) * size > t->bytes) return 0;
  if (size == 2) memcpy(&h, data + 2 * index, 2);
  if (size == 4) memcpy(&f, data + 4 * index, 4);
  if (size == 8) memcpy(&s, data + 8 * index, 8);
  return size == 2   ? (double)f16_to_float(h)
         : size == 4 ? (double)f
         : size == 8 ? (double)s
                     : data[index * size];
}
