/* Copies of the GM tensors a launch can write, so that a program can run again from the same start.
 */
#ifndef REDELTA_NPU_SCHEDULE_IMAGE_H
#define REDELTA_NPU_SCHEDULE_IMAGE_H

#include "npu/machine/memory.h"

/* GM of a launch as it was before it, and working copies of it. */
typedef struct gm_image {
  const rd_npu_launch *launch;
  uint8_t **data; /* per tensor; NULL where the launch cannot write: the caller's data is used */
} gm_image;
bool rdn_image_take(gm_image *g, const rd_npu_launch *l);
bool rdn_image_copy(gm_image *to, const gm_image *from); /* allocates on first use */
void rdn_image_free(gm_image *g);
void rdn_image_bind(const gm_image *g, memory *m);
bool rdn_image_differs(const gm_image *a, const gm_image *b, uint32_t *tensor, uint64_t *byte);
double rdn_element(const rd_npu_tensor *t, const uint8_t *data, uint64_t index);

#endif
