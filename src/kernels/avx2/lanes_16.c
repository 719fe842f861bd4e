/* lanes: the recurrence on a state that lies key by key, AVX2. 16 values at a time. */
#include "kernels/avx2/lane.h"
#include "kernels/avx2/transpose.h"
#include "kernels/lanes.h"
#include "kernels/registry.h"

int64_t rdi_lanes_scratch_avx2_16(int64_t R, int64_t K) {
  (void)R;
  return K * TILE;
}

void rdi_lanes_avx2_16(const rdi_rows_args *args) { lanes_rows(args); }

void rdi_turn_avx2_16(float *dst, int64_t dst_stride, const float *src, int64_t src_stride,
                      int64_t n, int64_t m) {
  rdi_transpose(dst, dst_stride, src, src_stride, n, m);
}
